"""Names of the methods in use: those that `advantage_shaping` names, and the one that `hold_entropy` moves."""

from collections.abc import Sequence
from typing import Any

from steer_trl.options.base import list_methods
from steer_trl.shaping.methods import find_shaper

DEFAULT = "steer"
"""The method of a run that sets neither `advantage_shaping` nor `hold_entropy`."""

SURPRISAL = "stare"
"""The method that `hold_entropy` moves by default, with STARE's operation C2 and a strength of our own."""


def name_methods(shaping: Any, level: Any) -> tuple[str, ...]:
    """Return the methods that `advantage_shaping` names, or those that are used if it is unset.

    `level` is `hold_entropy`.
    """
    if shaping is None:
        return () if level is not None else (DEFAULT,)
    return list_methods(shaping)


def add_actuator(names: Sequence[str], level: Any, actuator: str | None) -> tuple[str, ...]:
    """Return `names` and the method that `hold_entropy` moves, unless a method among `names` can be moved.

    `level` is `hold_entropy`, and `actuator` is `hold_entropy_by`.
    """
    if level is None or (actuator is None and any(map(_can_be_moved, names))):
        return tuple(names)
    name = SURPRISAL if actuator in (None, "surprisal") else actuator
    return tuple(dict.fromkeys([*names, name]))


def _can_be_moved(name: str) -> bool:
    try:
        return find_shaper(name).control is not None
    except ValueError:
        # The configuration reports a name that is wrong.
        return False
