"""How a run was started and set, fit to be published: nothing in it that is secret."""

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import psutil

COMMAND = "STEER_TRL_COMMAND"
"""Variable of the environment in which a command that starts others tells them its own words, as JSON."""

HIDDEN = "(hidden)"  # plain text in YAML and in Markdown
SECRET_NAME = re.compile(
    r"(^|[_-])(token|secret|password|passwd|credentials?|(api|access|private|secret)[_-]?key)$", re.IGNORECASE
)
TOKEN_OF_TEXT = re.compile(r"(^|[_-])(eos|bos|pad|unk|sep|cls|mask|stop|per|first|last)[_-]token$", re.IGNORECASE)
# A token of the Hub; user and password of a URL; a key among the parameters of one.
SECRET_TEXT = re.compile(
    r"\bhf_(?:oauth_[\w.-]{8,}|[A-Za-z0-9]{16,})|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|(?<=[?&])[\w-]*(?:token|api_?key|secret|password)=[^&\s'\")]+",
    re.IGNORECASE,
)
MIN_SECRET = 6  # shorter values of the environment would be found in any text


def is_secret(name: str) -> bool:
    """Whether a setting of that name holds what only its owner may know; a tokenizer's tokens are no secret."""
    return bool(SECRET_NAME.search(name)) and not TOKEN_OF_TEXT.search(name)


def without_secrets(value: Any, instead: str | None = HIDDEN) -> Any:
    """Return `value` with texts of a secret name replaced, and texts that look secret hidden, at any depth."""
    if isinstance(value, dict):
        secret = {name for name, inner in value.items() if isinstance(inner, str) and is_secret(str(name))}
        return {name: instead if name in secret else without_secrets(inner, instead) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(without_secrets(inner, instead) for inner in value)
    return SECRET_TEXT.sub(HIDDEN, value) if type(value) is str else value


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
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value).removeprefix("torch.")


def launch_command() -> str | None:
    """Return the command line that started this process, its launcher's if it had one; `None` in a notebook.

    A launcher (`accelerate launch`, `torchrun`, `uv run`) is an ancestor whose command ends as this process's does.
    """
    if "ipykernel" in sys.modules or not sys.argv[0]:
        return None
    if COMMAND in os.environ:
        return shlex.join(_hidden(json.loads(os.environ[COMMAND])))
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
    """Hide the values of secret flags, `--token X` and `--token=X`, and secrets inside of JSON values."""
    hidden = []
    for before, word in zip(["", *command], command, strict=False):
        flag, equals, value = word.partition("=")
        if equals and flag.startswith("-"):
            word = f"{flag}={HIDDEN if is_secret(flag) else _hidden_value(value)}"
        elif before.startswith("-") and "=" not in before and is_secret(before):
            word = HIDDEN
        else:
            word = _hidden_value(word)
        hidden.append(word)
    return hidden


def _hidden_value(word: str) -> str:
    try:
        value = json.loads(word)
    except ValueError:
        return word
    return json.dumps(without_secrets(value)) if isinstance(value, (dict, list)) else word
