"""A parser of the command line whose errors are sentences."""

import re
from argparse import ArgumentParser
from typing import Any, NoReturn

from steer_trl.exceptions import InvalidValueError
from steer_trl.validation import refuse

KINDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number"}
KINDS |= {kind.__name__: text for kind, text in KINDS.items()}
INVALID = re.compile(r"argument --(?P<name>\w+)\S*: invalid (?P<kind>\w+) value: (?P<value>.*)")


class Sentences(ArgumentParser):
    """A parser whose errors are one line, without the usage of three hundred flags."""

    def error(self, message: str) -> NoReturn:
        """Raise the message; `errors.py` says it."""
        if wrong := INVALID.match(message):
            message = f"{wrong['name']} must be {KINDS.get(wrong['kind'], wrong['kind'])}, got {wrong['value']}"
        elif lacking := re.match(r"argument --?([\w-]+)\S*: expected (.*)", message):
            message = f"{lacking[1]}: expected {lacking[2]} after --{lacking[1]}, and nothing follows"
        elif missing := re.match(r"the following arguments are required: (.*)", message):
            refuse([self._missing(words) for words in missing[1].split(", ")], self.prog)
        message = re.sub(r"^argument --?([\w-]+)\S*:", r"\1:", message)
        raise InvalidValueError(f"{message.rstrip('.')}.")

    def _missing(self, name: str) -> str:
        """What is missing, and what it is; argparse calls it by all its spellings or by its metavar."""
        spelling = name.split("/")[0]
        about = next(str(one.help) for one in self._actions if spelling in (*one.option_strings, one.metavar))
        return lacking(spelling, about)


def lacking(flag: str, about: str) -> str:
    """The complaint about a flag that must be given, and what it is."""
    return f"{flag.lstrip('-')} is missing: {about[0].lower()}{about[1:].rstrip('.')}. Give {flag}."


def split_off(flag: str, arguments: list[str], metavar: str = "FILE.yaml") -> tuple[str | None, list[str]]:
    """Return what follows `flag`, `None` without it, and the other arguments.

    Raises:
        `ValueError`: nothing follows, or the flag is given twice.
    """
    parser = Sentences(add_help=False, allow_abbrev=False)
    parser.add_argument(flag, dest="values", metavar=metavar, action="append", default=[])
    known, others = parser.parse_known_args(arguments)
    if len(known.values) > 1:
        parser.error(f"argument {flag}: given {len(known.values)} times, with {', '.join(known.values)}. Give one.")
    return (known.values or [None])[0], others
