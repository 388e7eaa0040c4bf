"""The methods, one file each. A new one is a file in this folder, and is entered in no list.

Its name for `advantage_shaping` is that of its class: `ClipCov` is `"clip_cov"`. What is found here is written down
for type checkers and editors in `__init__.pyi`, by `make settings`.
"""

import pkgutil
import re
from dataclasses import make_dataclass
from importlib import import_module
from types import ModuleType

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import QUESTIONS, Shaper

FIRST = ("steer", "stare", "repo_r")
"""What this package is for comes first in every list of methods; the others follow by name."""


def _modules() -> list[ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    places = {name: place for place, name in enumerate(FIRST)}
    return [import_module(f"{__name__}.{name}") for name in sorted(names, key=lambda x: places.get(x, len(places)))]


def _methods_in(module: ModuleType) -> dict[str, type[Shaper]]:
    """The subclasses of `Shaper` that a file defines and that answer something, by their name in small letters."""
    return {
        re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): found
        for name, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, Shaper) and found.__module__ == module.__name__
        if any(getattr(found, answer) is not getattr(Shaper, answer) for answer in QUESTIONS)
    }


SHAPERS: dict[str, type[Shaper]] = {name: method for part in _modules() for name, method in _methods_in(part).items()}

SETTINGS: dict[str, list[str]] = {}
"""Which methods read a setting, for each that only some of them do."""
for _name, _method in SHAPERS.items():
    for _setting in _method.settings():
        SETTINGS.setdefault(_setting, []).append(_name)

_options = dict.fromkeys(method.options for method in SHAPERS.values())
OPTIONS: tuple[type[ShapingConfig], ...] = tuple(
    part for part in _options if not any(issubclass(other, part) for other in _options if other is not part)
)
"""The classes of the methods' settings, without those that another one includes."""

MethodOptions = make_dataclass(
    "MethodOptions", [], bases=OPTIONS, namespace={"__doc__": "The settings of all methods.", "__module__": __name__}
)
