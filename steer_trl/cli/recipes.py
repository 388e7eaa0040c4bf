"""Recipes: YAML files of settings, of which one can extend another, so that a variant says only what it changes."""

import os
import sys
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
            raise ValueError(f"{path} is refused: it extends itself, over {following}. Take one 'extends' out.")
        seen.append(following.resolve())
        if not following.is_file():
            raise FileNotFoundError(f"There is no recipe {following}. Recipes lie in configs/recipes.")
        own = yaml.safe_load(following.read_text())
        if not isinstance(own, dict):
            raise ValueError(
                f"{following} is refused: a recipe is a YAML mapping of settings. Write 'name: value' lines."
            )
        base = own.pop("extends", None)
        settings = own | settings
        following = None if base is None else following.parent / base
    return settings


def take(arguments: list[str], flag: str) -> tuple[str | None, list[str]]:
    """Return the value of `flag`, `None` without it, and the arguments without both; `FLAG X` or `FLAG=X`.

    Raises:
        `ValueError`: nothing follows the flag.
    """
    for place, word in enumerate(arguments):
        if word == flag and place + 1 == len(arguments):
            raise ValueError(f"{flag} is refused: no file follows it. Write {flag} FILE.yaml.")
        if word == flag:
            return arguments[place + 1], arguments[:place] + arguments[place + 2 :]
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}="), arguments[:place] + arguments[place + 1 :]
    return None, arguments


def checkpoint_to_resume(value: str | None) -> str | bool | None:
    """`args.resume_from_checkpoint` as `Trainer.train` takes it: recipes and command lines say `true` and `false`."""
    return {"true": True, "false": None}.get(str(value).lower(), value)


class RecipeParser(TrlParser):
    """TRL's parser, with recipes that extend each other behind `--config`."""

    def parse_args_and_config(self, args: Iterable[str] | None = None, **kwargs: Any) -> tuple[Any, ...]:
        """Parse the command line over the recipe over the defaults; see [`~trl.TrlParser`]."""
        args = list(sys.argv[1:] if args is None else args)
        path, args = take(args, "--config")
        if path is not None:
            settings = load_recipe(path)
            os.environ |= {name: str(value) for name, value in (settings.pop("env", None) or {}).items()}
            unknown = self.set_defaults_with_config(**settings)
            if unknown:
                raise ValueError(f"{path} is refused: nothing knows {' '.join(unknown)}. Correct or remove it.")
        return super().parse_args_and_config(args, **kwargs)
