"""Options of methods: the constants that `shaping_options` sets, in a mapping for each method.

    shaping_options={"ppl": {"alpha": 0.02}, "my_file.Mine": {"last": 0.5}}

A method declares its options in a dataclass (`Shaper.options_class`), whose fields look like
`alpha: Annotated[float, Setting("...", "[0, 1]")]`. They are checked in the same way for the methods of this package
and for custom ones. If a single custom method is in use, its options may also stand without its name, as in
`shaping_options={"last": 0.5}`. A custom method without such a dataclass reads `self.args.shaping_options` itself,
unchecked.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_type_hints

from steer_trl.options.base import ShapingConfig, settings_of, value_complaints
from steer_trl.support.redact import allow_choices
from steer_trl.support.validation import did_you_mean


@dataclass
class NoOptions:
    """The options of a method that declares none."""


class HasOptions:
    """A method with options, as the base class of [`Shaper`]."""

    name: ClassVar[str] = ""
    """The name of a method of this package in `advantage_shaping`. A custom method has an import path instead."""

    options_class: ClassVar[type] = NoOptions
    """The dataclass of the method's options, which `shaping_options` sets.

    Annotate `options` with it as well, for a type checker.
    """

    options: Any
    """The method's options: an instance of `options_class`."""


Methods = Mapping[str, type[HasOptions]]


def select_options(method: type[HasOptions], args: ShapingConfig) -> dict[str, Any]:
    """Return the options that `args.shaping_options` sets for a method, by their names."""
    shaping_options = args.shaping_options
    if not isinstance(shaping_options, Mapping):
        return {}
    names = [name for name in args.shaping_names if _is_called(method, name)]
    # Two methods of different modules may have the same class name.
    name = next((name for name in names if _is_exactly(method, name)), names[0] if names else method.name)
    if name in shaping_options:
        return dict(shaping_options[name])
    if method.name:
        return {}
    return {option: value for option, value in shaping_options.items() if option not in args.shaping_names}


def _is_called(method: type[HasOptions], name: str) -> bool:
    """Return whether `name` is the name or the import path of a method."""
    return name == vars(method).get("name") or re.split(r"[.:]", name)[-1] == method.__name__


def _is_exactly(method: type[HasOptions], name: str) -> bool:
    """Return whether `name` is the name of a method, or the path of the module that defines it."""
    return name.replace(":", ".") in (vars(method).get("name"), f"{method.__module__}.{method.__qualname__}")


def read_options(method: type[HasOptions], args: ShapingConfig) -> Any:
    """Return an instance of `method.options_class`, with the values that `args.shaping_options` sets."""
    return NoOptions() if method.options_class is NoOptions else method.options_class(**select_options(method, args))


def option_complaints(methods: Methods, args: ShapingConfig) -> list[str]:
    """Return complaints about options in `args.shaping_options` that are unknown or out of range."""
    shaping_options = {} if args.shaping_options is None else args.shaping_options
    if not isinstance(shaping_options, Mapping):
        return [f"shaping_options must map methods to their options, got {shaping_options!r}."]
    complaints = []
    for name, method in methods.items():
        declared = settings_of(method.options_class)
        allow_choices(choice for setting in declared.values() for choice in setting.choices)
        if not isinstance(shaping_options.get(name, {}), Mapping):
            complaints.append(f"shaping_options.{name} must be a mapping of options, got {shaping_options[name]!r}.")
        elif method.options_class is not NoOptions:
            complaints += _complain_of_values(name, method, args)
    return complaints


def _complain_of_values(name: str, method: type[HasOptions], args: ShapingConfig) -> list[str]:
    complaints = []
    declared = settings_of(method.options_class)
    kinds = get_type_hints(method.options_class)
    option_names = [option.name for option in fields(method.options_class)]
    for option, value in select_options(method, args).items():
        place = f"shaping_options.{name}.{option}"
        if option not in option_names:
            hint = did_you_mean(option, option_names)
            complaints.append(f"{place} is not an option of {name!r}, which has {', '.join(option_names)}.{hint}")
        elif option in declared:
            complaints += value_complaints(place, value, declared[option], kinds[option])
    return complaints


def place_complaints(methods: Methods, args: ShapingConfig) -> list[str]:
    """Return complaints about options that belong to no method in use."""
    shaping_options = args.shaping_options if isinstance(args.shaping_options, Mapping) else {}
    custom = [name for name, method in methods.items() if not method.name]
    if len(custom) == 1:
        return []
    complaints = []
    names = ", ".join(map(repr, methods)) or "'none'"
    for key, value in shaping_options.items():
        if key in methods:
            continue
        readers = [name for name, method in methods.items() if key in settings_of(method.options_class)]
        remedy = f"Write {{{readers[0]!r}: {{{key!r}: {value!r}}}}}" if readers else "Leave it out, or name its method"
        complaints.append(
            f"shaping_options has {key!r}, which belongs to no method in use ({names}). {remedy}."
            f"{did_you_mean(key, methods)}"
        )
    return complaints
