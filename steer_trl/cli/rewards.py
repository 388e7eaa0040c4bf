"""Loads reward functions and tools from import paths. The name `math` stands for the reward `MathReward`."""

import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers.utils import DocstringParsingException, TypeHintParsingException, get_json_schema

from steer_trl.rewards import MathReward
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import why_not_imported

MATH = "math"


def load_rewards(names: Sequence[str], math: dict[str, Any], field: str = "reward_funcs") -> list[Any]:
    """Return the reward functions that `names` stand for.

    `math` holds the keyword arguments of [`~steer_trl.rewards.MathReward`]. `field` is the name of the setting that
    error messages show. Modules in the current folder can be imported, as with `python -m`.
    """
    must_be = f"{MATH!r} or an import path such as my.module.my_reward"
    return [MathReward(**math) if name == MATH else _import_function(name, field, must_be) for name in names]


def load_tools(names: Sequence[str]) -> list[Any]:
    """Import the functions that the model may call.

    Their type hints and docstrings describe them to the model.
    """
    tools = [_import_function(name, "tools", "an import path such as my_sandbox.run_python") for name in names]
    for name, tool in zip(names, tools, strict=True):
        try:
            # The model's prompt contains the schema of each tool, so a tool without a schema is refused.
            get_json_schema(tool)
        except (DocstringParsingException, TypeHintParsingException) as error:
            raise InvalidValueError(f"tools={name!r} cannot be used: {error}") from error
    return tools


def _import_function(name: str, field: str, must_be: str) -> Any:
    if "." not in name and ":" not in name:
        raise InvalidValueError(f"{field}={name!r} cannot be used: it must be {must_be}.")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        function = pkgutil.resolve_name(name)
        function = function() if isinstance(function, type) else function
    except (Exception, SystemExit) as error:
        # A user's module can raise any exception.
        raise InvalidValueError(f"{field}={name!r} cannot be used: {why_not_imported(error)}.") from error
    if not callable(function):
        raise InvalidValueError(f"{field}={name!r} cannot be used: it is a {type(function).__name__}, not a function.")
    return function
