"""Reward functions by name, `math` or the import path of any function that TRL's trainers take; tools by theirs."""

import pkgutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers.utils import DocstringParsingException, TypeHintParsingException, get_json_schema

from steer_trl.exceptions import InvalidTypeError, InvalidValueError
from steer_trl.rewards import MathReward
from steer_trl.validation import refuse, why_not_imported

MATH = "math"


def load_rewards(names: Sequence[str], math: dict[str, Any], field: str = "reward_funcs") -> list[Any]:
    """Return the reward functions of these names; `math` are the arguments of [`~steer_trl.rewards.MathReward`].

    `field` is the setting that an error names.

    A module in the current folder is found, as by `python -m`.

    Raises:
        `ValueError`: a name that cannot be imported, or is no function.
    """

    def load(name: str) -> Any:
        if name == MATH:
            return MathReward(**math)
        return _imported(name, f"{MATH!r} or an import path such as my.module.my_reward")

    return _each(field, names, load)


def load_tools(names: Sequence[str]) -> list[Any]:
    """Return the functions of these import paths that a model may call.

    Raises:
        `ValueError`: a name that cannot be imported, is no function, or whose types or docstring do not state how to
            call it.
    """

    def load(name: str) -> Any:
        tool = _imported(name, "an import path such as my_sandbox.run_python")
        try:
            get_json_schema(tool)  # what the model will be told of it
        except (DocstringParsingException, TypeHintParsingException) as error:
            raise InvalidValueError(str(error)) from error
        return tool

    return _each("tools", names, load)


def _each(field: str, names: Sequence[str], load: Callable[[str], Any]) -> list[Any]:
    functions: list[Any] = []
    complaints: list[str] = []
    for name in names:
        try:
            functions.append(load(name))
        except (Exception, SystemExit) as error:  # a file of the user's can raise anything
            complaints += getattr(
                error, "complaints", [f"{field}={name!r} cannot be used: {why_not_imported(error)}."]
            )
    refuse(complaints, field)
    return functions


def _imported(name: str, must_be: str) -> Any:
    if "." not in name and ":" not in name:
        raise InvalidValueError(f"it must be {must_be}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    function = pkgutil.resolve_name(name)
    if not callable(function):
        raise InvalidTypeError(f"it is a {type(function).__name__}, no function")
    return function() if isinstance(function, type) else function
