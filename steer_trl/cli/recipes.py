"""Recipes: YAML files of settings, of which one can extend another, so that a variant says only what it changes."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from trl import TrlParser


def load_recipe(path: str | Path) -> dict[str, Any]:
    """Return the settings of a recipe, over those of the recipe that its `extends` names, relative to it.

    Raises:
        `FileNotFoundError`: it, or the recipe it extends, is not there.
        `ValueError`: one is not a mapping, or they extend each other in a circle.
    """
    settings: dict[str, Any] = {}
    seen: list[Path] = []
    following: Path | None = Path(path)
    while following is not None:
        if following.resolve() in seen:
            raise ValueError(f"recipe {path} extends itself, by way of {following}. Remove one 'extends'.")
        seen.append(following.resolve())
        if not following.is_file():
            raise FileNotFoundError(f"There is no recipe {following}. The repository's are in configs/recipes.")
        own = yaml.safe_load(following.read_text())
        if not isinstance(own, dict):
            raise ValueError(
                f"recipe {following} must be a YAML mapping, got a {type(own).__name__}. Write lines 'name: value'."
            )
        base = own.pop("extends", None)
        settings = own | settings
        following = None if base is None else following.parent / base
    return settings


def split_off(flag: str, arguments: list[str]) -> tuple[str | None, list[str]]:
    """Return the file that follows `flag`, `None` without it, and the other arguments.

    Raises:
        `SystemExit`: with a usage message, if no file follows, or the flag is given twice.
    """
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(flag, dest="files", metavar="FILE.yaml", action="append", default=[])
    known, others = parser.parse_known_args(arguments)
    if len(known.files) > 1:
        parser.error(f"argument {flag}: given {len(known.files)} times, with {', '.join(known.files)}. Give one.")
    return (known.files or [None])[0], others


def checkpoint_to_resume(value: str | None) -> str | bool | None:
    """`args.resume_from_checkpoint` as `Trainer.train` takes it: recipes and command lines say `true` and `false`."""
    return {"true": True, "false": None}.get(str(value).lower(), value)


class RecipeParser(TrlParser):
    """TRL's parser, with recipes that extend each other behind `--config`."""

    def __init__(self, dataclass_types: Iterable[Any], **named: Any) -> None:
        super().__init__(dataclass_types, **named)

    def parse_args_and_config(self, args: Iterable[str] | None = None, *others: Any, **named: Any) -> tuple[Any, ...]:
        """Parse the command line over the recipe over the defaults; see [`~trl.TrlParser`]."""
        args = list(sys.argv[1:] if args is None else args)
        path, args = split_off("--config", args)
        if path is not None:
            settings = load_recipe(path)
            os.environ |= {name: str(value) for name, value in (settings.pop("env", None) or {}).items()}
            unknown = self.set_defaults_with_config(**settings)
            if unknown:
                raise ValueError(f"recipe {path} has unknown settings: {' '.join(unknown)}. Correct or remove them.")
        return super().parse_args_and_config(args, *others, **named)
