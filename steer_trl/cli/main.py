"""The console script: `steer-trl train`, `eval`, `compare`, `report`, `demo` and `recipes`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version

from steer_trl.cli.errors import report_errors
from steer_trl.cli.name_checks import check_names
from steer_trl.cli.recipe_files import set_environment, split_recipe
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import did_you_mean

# Maps each command to the module whose `main` runs it, and to its description in the help.
COMMANDS = {
    "train": ("steer_trl.cli.train", "train a model on problems with checkable answers"),
    "eval": ("steer_trl.cli.evaluate", "measure a saved model on the papers' benchmarks"),
    "compare": (
        "steer_trl.cli.compare",
        "compare two evaluations, or several seeds of each side, on the same problems",
    ),
    "report": ("steer_trl.cli.report", "show what happened in one run or several, as a page"),
    "demo": ("steer_trl.cli.demo", "train a small model twice in minutes, and see its entropy fall and held"),
    "recipes": ("steer_trl.cli.recipes", "list the recipes and engine configurations, or show one"),
}
WITH_RECIPE = ("train", "eval")
USAGE = """usage: steer-trl COMMAND [--config RECIPE] [--FIELD VALUE ...]

{commands}

steer-trl help COMMAND lists the fields of a command; steer-trl --version prints the version.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command.

    The names in its arguments are checked first, because importing the command's modules takes seconds.
    """
    command, *arguments_of_command = list(sys.argv[1:] if arguments is None else arguments) or [""]
    with report_errors(f"steer-trl {command}" if command in COMMANDS else "steer-trl"):
        # This raises an error if an argument has undecodable bytes, which must not reach a run's files.
        " ".join(arguments_of_command).encode()
        if command == "help" and arguments_of_command:
            command = arguments_of_command[0]
            arguments_of_command = ["--help"]
        if command in ("-h", "--help", "help"):
            print(usage(), end="")  # noqa: T201
        elif command == "--version":
            print(f"steer-trl {version('steer_trl')}")  # noqa: T201
        elif command in COMMANDS:
            if command in WITH_RECIPE:
                set_environment(split_recipe(arguments_of_command)[0])
            check_names(command, arguments_of_command)
            import_module(COMMANDS[command][0]).main(arguments_of_command)
        else:
            text = f"there is no command {command!r}.{did_you_mean(command, COMMANDS)}" if command else "no command."
            raise InvalidValueError(f"{text} Use one of {', '.join(COMMANDS)}; steer-trl --help describes them.")


def usage() -> str:
    """Return the text of `steer-trl --help`."""
    lines = (f"  {name:<8} {description}" for name, (_, description) in COMMANDS.items())
    return USAGE.format(commands="\n".join(lines))
