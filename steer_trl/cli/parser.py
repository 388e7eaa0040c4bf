"""Parses the settings of `train` and `eval`.

The command line overrides the recipe, which overrides the defaults.
"""

import json
import sys
import textwrap
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterable, Mapping
from shutil import get_terminal_size
from typing import Any

from trl import TrlParser

from steer_trl.cli.errors import OneLineParser
from steer_trl.cli.name_checks import BARE, NOT_RESUMED
from steer_trl.cli.recipe_files import SENTENCE, load_recipe, set_environment, split_recipe
from steer_trl.support.validation import refuse

ONE_OR_SEVERAL = ("report_to", "advantage_shaping")
"""Settings that take a string or a list. The parser of Transformers would accept only a string for them."""
RESUME = (
    "true for the last complete checkpoint in output_dir, auto for the same if there is one and step 0 otherwise, or "
    "the folder of a checkpoint"
)


def print_help(parser: ArgumentParser) -> None:
    """Print the full help of every setting, with one spelling of each flag."""
    for action in parser._actions:
        action.option_strings = action.option_strings[:1]
    parser.print_help()


def print_summary(parser: ArgumentParser, groups: Mapping[str, Iterable[str]]) -> None:
    """Print one sentence about each setting.

    `groups` maps the title of a group to the names of its settings.
    """
    width = min(get_terminal_size().columns, 119)
    # A boolean setting has two actions with the same `dest`, first `--NAME` and then `--no_NAME`. The dictionary keeps
    # the last of them, so the order is reversed to keep `--NAME`.
    actions = {action.dest: action for action in reversed(parser._actions)}
    lines = [f"usage: {parser.usage}"]
    for title, names in groups.items():
        lines += ["", f"{title}:"]
        for name in names:
            text = f"--{name}  {_summarize(actions[name])}"
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent=" " * 8)
    print("\n".join(lines))  # noqa: T201


def _summarize(action: Action) -> str:
    text = " ".join((action.help or "").replace("%%", "%").split())
    sentence = SENTENCE.match(text)
    summary = sentence[0] if sentence else text
    is_set = action.default is not None and action.default != SUPPRESS
    return f"{summary} (default: {action.default})" if is_set else summary


def parse_resume(value: str | None) -> str | bool | None:
    """Convert the string given for `resume_from_checkpoint` to the value that the trainer expects."""
    values: dict[str, str | bool | None] = {"true": True, "auto": "auto"}
    return (values | dict.fromkeys(NOT_RESUMED)).get(str(value).lower(), value)


class RecipeParser(OneLineParser, TrlParser):
    """TRL's parser, except that `--config` takes a recipe, which can extend another recipe."""

    def __init__(self, dataclass_types: Iterable[Any], **kwargs: Any) -> None:
        super().__init__(dataclass_types, allow_abbrev=False, **kwargs)
        for action in self._actions:
            if action.dest in ONE_OR_SEVERAL:
                action.nargs = "+"
            # Transformers does not describe the values of `resume_from_checkpoint` in its help, because it leaves
            # their use to training scripts.
            if action.dest == "resume_from_checkpoint":
                action.help = RESUME
            if action.dest in BARE:
                action.nargs = "?"
                action.const = BARE[action.dest]

    def parse_args_and_config(self, args: Iterable[str] | None = None, *more: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Parse the command line and the recipe; see [`~trl.TrlParser`]."""
        path, args = split_recipe(list(sys.argv[1:] if args is None else args))
        if path is not None:
            settings = self.settings_of(path, args)
            # The console script has set them before, for the libraries that read them at the import.
            set_environment(path)
            settings.pop("env", None)
            args = [word for name, value in settings.items() for word in self._to_words(name, value)] + args
        return super().parse_args_and_config(args, *more, **kwargs)

    def settings_of(self, path: str, args: list[str]) -> dict[str, Any]:
        """Return the settings of a recipe.

        `args` holds the other words of the command line. A subclass may drop settings that these words make useless.
        """
        return load_recipe(path)

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the arguments, and raise an error if any of them is unknown."""
        namespace, unknown = super().parse_known_args(*args, **kwargs)
        names = [word[2:].partition("=")[0] for word in unknown if word.startswith("--")]
        refuse([f"unknown setting {name!r}. --help-all lists the settings." for name in names], self.prog)
        refuse([f"unexpected argument {word!r}. Use --setting value." for word in unknown], self.prog)
        return namespace, unknown

    def _to_words(self, name: str, value: Any) -> list[str]:
        """Return a setting from a recipe as words of a command line.

        The result is empty for `null`, which stands for the default. It is also empty for a value that words cannot
        express, such as a mapping. Such a value becomes the default of the flag.
        """
        action = self._option_string_actions.get(f"--{name}")
        if value is None:
            return []
        is_several = action is not None and action.nargs in ("+", "*")
        if action is not None and (name in ONE_OR_SEVERAL or (isinstance(value, (dict, list)) and not is_several)):
            action.default = value
            return []
        if isinstance(value, list):
            return [f"--{name}", *map(str, value)]
        # YAML reads the word `no` as false, but `no` is one of this setting's choices.
        if value is False and action is not None and action.choices:
            return [f"--{name}", "no"]
        return [f"--{name}={value if isinstance(value, str) else json.dumps(value)}"]
