"""How a run was started and set, fit to be published: nothing in it that is secret."""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import psutil

HIDDEN = "***"
SECRET_NAME = re.compile(
    r"(^|[_-])(token|secret|password|passwd|credentials?|(api|access|private|secret)[_-]?key)$", re.IGNORECASE
)
TOKEN_OF_TEXT = re.compile(r"(^|[_-])(eos|bos|pad|unk|sep|cls|mask|stop)[_-]token$", re.IGNORECASE)
SECRET_TEXT = re.compile(r"\bhf_[A-Za-z0-9]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
MIN_SECRET = 6  # shorter values of the environment would be found in any text


def is_secret(name: str) -> bool:
    """Whether a setting of that name holds what only its owner may know; a tokenizer's tokens are no secret."""
    return bool(SECRET_NAME.search(name)) and not TOKEN_OF_TEXT.search(name)


def without_secrets(value: Any) -> Any:
    """Return `value` with `None` for what is secret by its name, in dictionaries at any depth."""
    if isinstance(value, dict):
        return {
            name: None if isinstance(name, str) and is_secret(name) else without_secrets(inner)
            for name, inner in value.items()
        }
    return value


def publishable(text: str, secrets: Sequence[str | None] = ()) -> str:
    """Hide what looks like a token, the `secrets`, those of the environment, and where the home folder is."""
    known = [*secrets, *(value for name, value in os.environ.items() if is_secret(name))]
    for secret in known:
        if secret and len(secret) >= MIN_SECRET:
            text = text.replace(secret, HIDDEN)
    home = str(Path.home())
    text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text) if len(home) > 1 else text
    return SECRET_TEXT.sub(HIDDEN, text)


def plain(value: Any) -> Any:
    """Return a setting as YAML can say it: enumerations by value, other objects by their text."""
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def launch_command() -> str | None:
    """Return the command line that started this process, its launcher's if it had one; `None` in a notebook.

    A launcher (`accelerate launch`, `torchrun`, `uv run`) is an ancestor whose command ends as this process's does.
    """
    if "ipykernel" in sys.modules or not sys.argv[0]:
        return None
    command = sys.orig_argv
    own = command[-len(sys.argv) :]
    try:
        for ancestor in psutil.Process().parents():
            theirs = ancestor.cmdline()
            if theirs[-len(own) :] != own:
                break
            command = theirs
    except psutil.Error:
        pass  # a process that may not look at its parents knows its own command
    return shlex.join(_hidden(_named(command)))


def _named(command: list[str]) -> list[str]:
    """Leave out where the environment lies: `accelerate` rather than `/x/bin/python /x/bin/accelerate`."""
    programs = Path(sys.executable).parent
    if len(command) > 1 and Path(command[1]).parent == programs:
        command = command[1:]
    return [Path(command[0]).name, *command[1:]]


def _hidden(command: list[str]) -> list[str]:
    """Hide the values of secret flags, `--token X` and `--token=X`."""
    hidden = []
    for before, word in zip(["", *command], command, strict=False):
        flag, equals, _ = word.partition("=")
        if equals and flag.startswith("-") and is_secret(flag):
            word = f"{flag}={HIDDEN}"
        elif before.startswith("-") and "=" not in before and is_secret(before):
            word = HIDDEN
        hidden.append(word)
    return hidden
