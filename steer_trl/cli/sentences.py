"""A parser of the command line whose errors are sentences."""

import re
from argparse import ArgumentParser
from typing import Any, NoReturn

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
            names = [words.split("/")[0] for words in missing[1].split(", ")]
            message = "; ".join(f"{name.lstrip('-')} is missing" for name in names) + f". Give {' and '.join(names)}"
        message = re.sub(r"^argument --?([\w-]+)\S*:", r"\1:", message)
        raise ValueError(f"{message.rstrip('.')}.")
