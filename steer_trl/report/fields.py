"""A run's `run.json` as the page takes it: the fields that it knows, each of the type that we write."""

import re
from collections.abc import Callable, Collection
from typing import Any

LONGEST_VALUE = 300  # characters
COMMIT = re.compile(r"[0-9a-f]{40,64}")


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number that a curve can show."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e300  # NaN is not, nor an integer of a thousand digits


def shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    """Return `text` with at most `longest` characters, and a mark where some are left out."""
    return text if len(text) <= longest else f"{text[:longest]} [...]"


def _is(kind: type[Collection[Any]] | type[str], of: type = object) -> Callable[[Any], bool]:
    """Whether a value is of this kind, and what it holds `of` that one."""
    return lambda value: isinstance(value, kind) and all(isinstance(item, of) for item in value)


FIELDS: dict[str, Callable[[Any], bool]] = {
    "methods": _is(list, str),
    "model": _is(str),
    "versions": _is(dict),
    "code": lambda value: isinstance(value, dict) and COMMIT.fullmatch(str(value.get("commit"))) is not None,
    "started": is_number,
    "resumed": _is(list, dict),
    "max_steps": lambda value: is_number(value) and value > 0,
    "settings": _is(dict),
    "defaults": _is(dict),
}


def checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `run.json` that the page knows, without what cannot be one."""
    return {name: given[name] for name, can_be in FIELDS.items() if name in given and can_be(given[name])}


def code_in_words(code: dict[str, Any] | None) -> str | None:
    """The commit that a run was started with."""
    if code is None:
        return None
    return f"commit {code['commit'][:12]}{', with changes' if code.get('is_changed') is True else ''}"
