"""`steer-trl recipes`: lists the recipes and engine configurations, or prints one of them.

A recipe is printed with the settings of the recipes that it extends.
"""

import textwrap
from itertools import takewhile
from pathlib import Path

import yaml

from steer_trl.cli.recipe_files import ENGINES, RECIPES, SENTENCE, find_file, list_files, load_recipe
from steer_trl.support.exceptions import InvalidValueError

HELP = """usage: steer-trl recipes [NAME]

Without a name, list what --config and --accelerate_config take; with one, print the recipe, those that it extends
merged into it. steer-trl recipes NAME > mine.yaml makes a copy to change."""
GROUPS = {
    "In minutes on a CPU": ("demo_*.yaml", "countdown.yaml", "first_run.yaml"),
    "The recommended setting": ("recommended_*.yaml",),
    "The runs of the papers": ("steer_*.yaml", "stare_*.yaml"),
    "One for each method, on Qwen2.5-Math-7B": ("methods/*.yaml",),
    "To extend in a recipe of your own": ("base_*.yaml",),
    "For steer-trl eval": ("evaluation/*.yaml",),
}
"""Maps each heading of the list to the file patterns of the recipes below it."""
WIDTH = 119


def main(arguments: list[str]) -> None:
    """Print the list of recipes, or the recipe that `arguments` name."""
    if arguments in (["-h"], ["--help"]):
        print(HELP)  # noqa: T201
    elif len(arguments) > 1:
        raise InvalidValueError(f"one name is shown at a time, got {' '.join(arguments)!r}.")
    elif arguments:
        print(show_recipe(arguments[0]), end="")  # noqa: T201
    else:
        print(list_recipes())  # noqa: T201


def list_recipes() -> str:
    """Return a list of recipes and engine configurations, each with a sentence about it."""
    groups = {heading: [*find_recipes(patterns)] for heading, patterns in GROUPS.items()}
    width = max(len(path.stem) for paths in groups.values() for path in paths) + 4
    lines = ["Recipes, for --config:"]
    for heading, paths in groups.items():
        lines += ["", f"  {heading}", *(_describe(path, width) for path in paths)]
    lines += ["", "Engines, for --accelerate_config:", ""]
    lines += [_describe(path, width) for path in list_files(ENGINES).values()]
    return "\n".join(lines)


def find_recipes(patterns: tuple[str, ...]) -> list[Path]:
    """Return the files of the recipes that match a pattern, ordered by pattern and then by name."""
    return [path for pattern in patterns for path in sorted(RECIPES.glob(pattern))]


def _describe(path: Path, width: int) -> str:
    indent = " " * (width + 2)
    text = textwrap.fill(read_first_sentence(path), WIDTH, initial_indent=indent, subsequent_indent=indent)
    return f"    {path.stem:<{width - 2}}{text.lstrip()}"


def read_first_sentence(path: Path) -> str:
    """Return the first sentence of the comment at the beginning of a file."""
    lines = []
    for line in path.read_text().splitlines():
        text = line.removeprefix("#").strip()
        if not line.startswith("#") or not text:
            break
        lines.append(text)
    comment = " ".join(lines)
    sentence = SENTENCE.match(comment)
    return sentence[0] if sentence else comment.rstrip(":") + "."


def show_recipe(name: str) -> str:
    """Return a recipe's first comment and all its settings, or the text of an engine configuration."""
    if name in list_files(ENGINES) and name not in list_files(RECIPES):
        return find_file(name, ENGINES, "engine configuration").read_text()
    path = find_file(name, RECIPES, "recipe")
    # A null in a recipe stands for the default, so the setting is left out.
    settings = {name: value for name, value in load_recipe(path).items() if value is not None}
    lines = path.read_text("utf-8").splitlines(keepends=True)
    comment = "".join(takewhile(lambda line: line.startswith("#"), lines))
    return comment + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=1000)
