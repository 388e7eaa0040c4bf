"""A run's `run.json` as the page takes it: each field as it must be and within a size, whoever has edited the file."""

import re
from collections.abc import Callable
from typing import Any

from steer_trl import runlog

MOST_NAMES, LONGEST_NAME = 50, 80  # of methods, packages
MOST_RESUMES, MOST_SETTINGS = 20, 600  # a run has 300 settings
LONGEST_VALUE = 300  # characters
COMMIT = re.compile(r"[0-9a-f]{40,64}")


def checked(given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that the page knows, and the names of those that cannot be what they should."""
    known: dict[str, Any] = {}
    wrong: list[str] = []
    for name, take in FIELDS.items():
        value = given.get(name)
        if value is not None:
            taken = take(value)
            known |= {} if taken is None else {name: taken}
            wrong += [name] if taken is None else []
    return known, wrong


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number that a curve can show."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e300  # NaN is not, nor an integer of a thousand digits


def shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    """Return `text` with at most `longest` characters, and a mark where some are left out."""
    return text if len(text) <= longest else f"{text[:longest]} [...]"


def _names(value: Any) -> list[str] | None:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    return [shortened(name, LONGEST_NAME) for name in value[:MOST_NAMES]]


def _text(value: Any) -> str | None:
    return shortened(value) if isinstance(value, str) else None


def _versions(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict) or not all(isinstance(version, str) for version in value.values()):
        return None
    some = list(value.items())[:MOST_NAMES]
    return {shortened(name, LONGEST_NAME): shortened(version, LONGEST_NAME) for name, version in some}


def _time(value: Any) -> float | None:
    return value if is_number(value) and value >= 0 else None


def _resumes(value: Any) -> list[tuple[int, float | None]] | None:
    """After which steps, and when."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return None
    return [(runlog.step_of(one), _time(one.get("time"))) for one in value[-MOST_RESUMES:]]


def _steps(value: Any) -> int | None:
    return value if is_number(value) and isinstance(value, int) and 0 < value < 10**15 else None


def _code(value: Any) -> str | None:
    """The commit that a run was started with, in words."""
    if not isinstance(value, dict) or not COMMIT.fullmatch(str(value.get("commit"))):
        return None
    return f"commit {value['commit'][:12]}{', with changes' if value.get('is_changed') is True else ''}"


def _settings(value: Any) -> dict[str, Any] | None:
    return dict(list(value.items())[:MOST_SETTINGS]) if isinstance(value, dict) else None


FIELDS: dict[str, Callable[[Any], Any]] = {
    "methods": _names,
    "model": _text,
    "versions": _versions,
    "code": _code,
    "started": _time,
    "resumed": _resumes,
    "max_steps": _steps,
    "settings": _settings,
    "defaults": _settings,
}
