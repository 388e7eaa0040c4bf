"""Methods that shape advantages: their base class, their combination, and the registry of their names."""

import pkgutil
from typing import Any

from steer_trl.exceptions import InvalidValueError
from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout, TokenBatch
from steer_trl.shaping.compose import (
    Shaped,
    act_on_rollouts,
    compares_tokens,
    entropy_coef,
    measured,
    reads_sensitivities,
    shape_rollout,
    shaped,
)
from steer_trl.shaping.hold import HoldEntropy
from steer_trl.shaping.methods import SHAPERS
from steer_trl.shaping.start_entropy import StartEntropy, first_rollouts
from steer_trl.validation import did_you_mean, why_not_imported

__all__ = [
    "SHAPERS",
    "HoldEntropy",
    "Paper",
    "Rollout",
    "Shaped",
    "Shaper",
    "StartEntropy",
    "TokenBatch",
    "act_on_rollouts",
    "compares_tokens",
    "entropy_coef",
    "find_shaper",
    "first_rollouts",
    "make_shapers",
    "measured",
    "reads_sensitivities",
    "shape_rollout",
    "shaped",
]


def find_shaper(name: Any) -> type[Shaper]:
    """Return the method called `name`, or the subclass of [`Shaper`] at the import path `name`."""
    if name in SHAPERS:
        return SHAPERS[name]
    if not isinstance(name, str) or not ("." in name or ":" in name):
        known = ", ".join(map(repr, (*SHAPERS, "none")))
        raise InvalidValueError(
            f"advantage_shaping={name!r} is unknown.{did_you_mean(name, SHAPERS)} Use one of {known}, or the import "
            "path of a subclass of steer_trl.shaping.Shaper."
        )
    try:
        found = pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:
        raise InvalidValueError(
            f"advantage_shaping={name!r} cannot be imported: {why_not_imported(error)}. Put the file where Python "
            "finds it, for instance with PYTHONPATH=. before the command."
        ) from error
    if not (isinstance(found, type) and issubclass(found, Shaper)):
        raise InvalidValueError(f"advantage_shaping={name!r} must be a subclass of steer_trl.shaping.Shaper.")
    return found


def make_shapers(args: ShapingConfig) -> dict[str, Shaper]:
    """Make each method that `args.advantage_shaping` names; return them by name."""
    return {name: find_shaper(name)(args) for name in args.shaping_names}
