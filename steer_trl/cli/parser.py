"""The parser of every command: the command line over a recipe over the defaults, and a sentence for each mistake."""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import EnumType
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from trl import TrlParser

from steer_trl.cli.recipe_files import load_recipe
from steer_trl.cli.sentences import KINDS, Sentences, split_off
from steer_trl.exceptions import InvalidValueError
from steer_trl.options.removed import hint
from steer_trl.validation import refuse

NO_TEXT = re.compile("[\0\ud800-\udfff]")


def checkpoint_to_resume(value: str | None) -> str | bool | None:
    """`args.resume_from_checkpoint` as the trainer takes it: `true`, `false`, `auto` or a folder."""
    return {"true": True, "false": None, "auto": "auto"}.get(str(value).lower(), value)


class RecipeParser(Sentences, TrlParser):
    """TRL's parser, with recipes that extend each other behind `--config`."""

    def __init__(self, dataclass_types: Iterable[Any], **named: Any) -> None:
        super().__init__(dataclass_types, allow_abbrev=False, **named)
        self.hints: dict[str, Any] = {}
        for kind in self.dataclass_types:
            self.hints |= {name: hint for name, hint in get_type_hints(kind).items() if name in _names(kind)}
        for action in self._actions:
            if action.dest in ("report_to", "advantage_shaping"):  # they take several, Transformers' parser only one
                action.nargs = "+"

    def parse_args_and_config(self, args: Iterable[str] | None = None, *others: Any, **named: Any) -> tuple[Any, ...]:
        """Parse the command line over the recipe over the defaults; see [`~trl.TrlParser`].

        Raises:
            `ValueError`: a setting that nothing knows, or a value of another kind than its setting takes.
        """
        args = list(sys.argv[1:] if args is None else args)
        refuse(_encoding_complaints(args), "command line")
        path, args = split_off("--config", args)
        if path is not None:
            self.take(self.settings_of(path, args), path)
        return super().parse_args_and_config(args, *others, **named)

    def settings_of(self, path: str, args: list[str]) -> dict[str, Any]:
        """Return the settings of a recipe, given the command line that goes over them."""
        return load_recipe(path)

    def take(self, settings: dict[str, Any], path: str) -> None:
        """Make `settings` of the recipe at `path` the defaults, and its `env` part of the environment."""
        environment = settings.pop("env", None) or {}
        refuse(_environment_complaints(environment, path), f"recipe {path}")
        settings = {name: self._as_typed(name, value) for name, value in settings.items()}
        os.environ |= {name: str(value) for name, value in environment.items()}
        refuse(
            [
                complaint
                for name, value in settings.items()
                for complaint in (self._kind_complaints(name, value) if name in self.hints else [self._unknown(name)])
            ],
            f"recipe {path}",
        )
        self.set_defaults_with_config(**settings)

    def parse_known_args(self, *args: Any, **named: Any) -> Any:
        """Refuse what no setting takes, each word of it."""
        known, unknown = super().parse_known_args(*args, **named)
        flags = [word.split("=")[0] for word in unknown if word.startswith("--")]
        refuse([self._unknown(flag.lstrip("-").replace("-", "_")) for flag in flags], "command line")
        if unknown:
            raise InvalidValueError(f"{unknown[0]!r} belongs to no setting. Write --setting value.")
        return known, unknown

    def _unknown(self, name: str) -> str:
        return f"{name} is no setting.{hint(name, self.hints)} Correct or remove it; --help-all lists them."

    def _as_typed(self, name: str, value: Any) -> Any:
        """A value of YAML as the command line has it: one text is a list of one, and `no` is no `false`."""
        kinds = _kinds(self.hints.get(name))
        if isinstance(value, str) and kinds - {type(None)} == {list}:
            return [value]
        names = [value for kind in kinds if isinstance(kind, EnumType) for value in kind.__members__]
        return "no" if value is False and "NO" in names else value

    def _kind_complaints(self, name: str, value: Any) -> list[str]:
        """Say what a value of YAML should have been: argparse looks at texts only."""
        kinds = _kinds(self.hints[name])
        if isinstance(value, str) and NO_TEXT.search(value):
            return [f"{name} must be a text in UTF-8 without NUL, got {value!r}."]
        if value is not None and kinds - {type(None)} == {str} and not isinstance(value, str):
            return [f"{name} must be a text, got {value!r}. Put it in quotes."]
        what, kind = ("numbers", (int, float)) if list[float] in get_args(self.hints[name]) else ("texts", (str,))
        fits = isinstance(value, list) and all(isinstance(item, kind) and not isinstance(item, bool) for item in value)
        if value is not None and kinds - {type(None)} == {list} and not fits:
            return [f"{name} must be a list of {what}, got {value!r}."]
        takes_none, plain = type(None) in kinds, [kind for kind in (bool, int, float) if kind in kinds]
        if value is None and not takes_none and not isinstance(value, str):
            return [f"{name} must not be null. Remove the line, and it has its default."]
        if isinstance(value, str) or value is None or not plain or kinds - {bool, int, float, type(None)}:
            return []
        allowed = (bool,) if plain == [bool] else (int,) if plain == [int] else (int, float)
        fits = isinstance(value, allowed) and (plain == [bool] or not isinstance(value, bool))
        return [] if fits else [f"{name} must be {' or '.join(KINDS[kind] for kind in plain)}, got {value!r}."]


def _encoding_complaints(arguments: list[str]) -> list[str]:
    """Complain about words that are no text: bytes that cannot be decoded end in every file and folder of a run."""
    flags = ["command line", *arguments]
    return [
        f"{flags[number].lstrip('-')} must be a text in UTF-8, got {word!r}."
        for number, word in enumerate(arguments)
        if any("\ud800" <= character <= "\udfff" for character in word)
    ]


def _environment_complaints(environment: Any, path: str) -> list[str]:
    if not isinstance(environment, Mapping):
        return [f"recipe {path}: env must be a mapping of variables, got {environment!r}."]
    bad = [
        name for name in environment if not isinstance(name, str) or not name or "=" in name or NO_TEXT.search(name)
    ]
    complaints = [f"recipe {path}: env must name each variable with a text, got {name!r}." for name in bad]
    return complaints + [
        f"recipe {path}: env: {name} must be a text or a number, got {value!r}."
        for name, value in environment.items()
        if not isinstance(value, (str, int, float)) or NO_TEXT.search(str(value))
    ]


def _names(kind: Any) -> set[str]:
    return {field.name for field in fields(kind) if field.init}


def _kinds(hint: Any) -> set[Any]:
    """The kinds of value that a type hint takes: those of a union, `list` for `list[str]`."""
    if get_origin(hint) in (Union, UnionType):
        return set().union(*map(_kinds, get_args(hint)))
    return {get_origin(hint) or hint}
