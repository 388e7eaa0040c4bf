"""`steer-trl recipes`: the recipes and the engine configurations of this package, or one of them, merged and whole."""

from pathlib import Path

import yaml

from steer_trl.cli.recipe_files import ENGINES, RECIPES, find_file, load_recipe, named
from steer_trl.exceptions import InvalidValueError

HELP = """usage: steer-trl recipes [NAME]

Without a name, list what --config and --accelerate_config take; with one, print the recipe, those that it extends
merged into it. steer-trl recipes NAME > mine.yaml makes a copy to change."""


def main(arguments: list[str]) -> None:
    """List them, or print one."""
    if arguments in (["-h"], ["--help"]):
        print(HELP)  # noqa: T201
    elif len(arguments) > 1:
        raise InvalidValueError(f"one name is shown at a time, got {' '.join(arguments)!r}.")
    elif arguments:
        print(_one(arguments[0]), end="")  # noqa: T201
    else:
        print(_all())  # noqa: T201


def _all() -> str:
    parts = []
    for heading, folder in (("--config", RECIPES), ("--accelerate_config", ENGINES)):
        found = named(folder)
        width = max(map(len, found)) + 2
        parts.append("\n".join([f"{heading}:", *(f"  {name:<{width}}{_about(p)}" for name, p in found.items())]))
    return "\n\n".join(parts)


def _about(path: Path) -> str:
    """The first sentence of the comment that a file begins with, as far as it is on the first line."""
    return path.read_text().partition("\n")[0].lstrip("# ").partition(". ")[0].rstrip(".:")


def _one(name: str) -> str:
    if name in named(ENGINES) and name not in named(RECIPES):
        return find_file(name, ENGINES, "engine configuration").read_text()
    path = find_file(name, RECIPES, "recipe")
    lines = path.read_text().splitlines(keepends=True)
    comment = "".join(lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))])
    settings = {name: value for name, value in load_recipe(path).items() if value is not None}  # null: the default
    return comment + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=1000)
