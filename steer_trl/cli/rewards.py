"""Reward functions by name: `math`, or the import path of any function that TRL's trainers take."""

import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steer_trl.rewards import MathReward
from steer_trl.validation import refuse

MATH = "math"


def load_rewards(names: Sequence[str], math: dict[str, Any]) -> list[Any]:
    """Return the reward functions of these names; `math` are the arguments of [`~steer_trl.rewards.MathReward`].

    A module in the current folder is found, as by `python -m`.

    Raises:
        `ValueError`: a name that cannot be imported, or is no function.
    """
    functions: list[Any] = []
    complaints: list[str] = []
    for name in names:
        try:
            functions.append(MathReward(**math) if name == MATH else _imported(name))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            reason = getattr(error, "complaints", [f"reward_funcs={name!r} cannot be used: {error}."])
            complaints += reason
    refuse(complaints, "reward_funcs")
    return functions


def _imported(name: str) -> Any:
    if "." not in name and ":" not in name:
        raise ValueError(f"it must be {MATH!r} or an import path such as my.module.my_reward")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    function = pkgutil.resolve_name(name)
    if not callable(function):
        raise TypeError(f"it is a {type(function).__name__}, no function")
    return function() if isinstance(function, type) else function
