"""Checks values and collects complaints, so that a user sees all of them at once.

A complaint is one sentence with the name of a setting, its value, and the allowed values.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from numbers import Real
from traceback import extract_tb
from typing import Any, TypeGuard

from steer_trl.support.exceptions import InvalidValueError


class InvalidValuesError(InvalidValueError):
    """The error that lists all `complaints` about one subject, for example about a configuration.

    The text of a single complaint is `subject: complaint`. Several complaints are listed below a line such as
    `subject: 2 problems found.`
    """

    def __init__(self, complaints: list[str], subject: str) -> None:
        if len(complaints) == 1:
            text = complaints[0] if complaints[0].startswith(subject) else f"{subject}: {complaints[0]}"
        else:
            text = "\n".join([f"{subject}: {len(complaints)} problems found.", *complaints])
        super().__init__(text)
        self.complaints = complaints
        self.subject = subject

    def __reduce__(self) -> tuple[Any, ...]:
        # A process pool pickles the errors that its processes raise.
        return type(self), (self.complaints, self.subject), vars(self)


def refuse(complaints: list[str], subject: str) -> None:
    """Raise one `ValueError` that lists every complaint about `subject`; do nothing when there is none."""
    if complaints:
        raise InvalidValuesError(complaints, subject)


def why_not_imported(error: BaseException) -> str:
    """Return the reason why a user's file cannot be imported.

    This is Python's message. For an unexpected kind of error, the type, file and line are added.
    """
    if isinstance(error, (ImportError, AttributeError, TypeError, ValueError, SyntaxError, OSError)):
        return str(error)
    place = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"


def did_you_mean(name: object, names: Collection[str], cutoff: float = 0.7) -> str:
    """Return `" Did you mean 'x'?"` with the most similar one of `names`, or `""` if none is similar."""
    similar = get_close_matches(str(name).lower(), names, n=1, cutoff=cutoff)
    return f" Did you mean {similar[0]!r}?" if similar else ""


def check_choice(name: str, value: object, allowed: Collection[str]) -> list[str]:
    """Return a complaint unless `value` is one of the `allowed` names."""
    if isinstance(value, str) and value in allowed:
        return []
    return [f"{name}={value!r} is unknown.{did_you_mean(value, allowed)} Use one of {', '.join(map(repr, allowed))}."]


def check_choices(name: str, value: object, allowed: Collection[str]) -> list[str]:
    """Return complaints unless `value` is one of the `allowed` names, or a list of them."""
    names = as_tuple(value) if isinstance(value, Collection) and value else (value,)
    return [complaint for item in names for complaint in check_choice(name, item, allowed)]


def check_correct_reward(reward: str, names: Sequence[str]) -> list[str]:
    """Return a complaint unless `reward` is the name of exactly one of the reward functions called `names`."""
    if names.count(reward) == 1:
        return []
    return [
        f"correct_reward={reward!r} must be the name of the one reward function that decides whether a completion "
        f"is correct, and the names are {list(names)}."
    ]


def is_number(value: object) -> TypeGuard[float]:
    """Return whether `value` is a real number; `True` and `False` are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_within(value: object, interval: str) -> bool:
    """Return whether `value` is a number in `interval`, such as `"(0, 1]"` or `"[1, inf)"`."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    if not is_number(value):
        return False
    above = value > low if interval[0] == "(" else value >= low
    below = value < high if interval[-1] == ")" else value <= high
    return above and below


def check_interval(name: str, value: object, interval: str, why: str = "") -> list[str]:
    """Return a complaint unless `value` is in `interval` (see [`is_within`]).

    `why` is the reason that the complaint gives.
    """
    if is_within(value, interval):
        return []
    kind = "" if is_number(value) else "a number "
    reason = f": {why}" if why else ""
    return [f"{name} must be {kind}in {interval}, got {value!r}{reason}."]


def read_from_state(state: object, name: str, is_valid: Callable[[Any], bool], must_be: str) -> Any:
    """Return the field `name` of a state that was read from a file.

    Raises `ValueError` if the field is missing or invalid. In the error's text, `must_be` describes a valid value. The
    caller puts the name of the file in front of this text.
    """
    if not isinstance(state, Mapping):
        raise InvalidValueError(f"the state must be a mapping with the key {name!r}, got {state!r}")
    if name not in state:
        raise InvalidValueError(f"{name} is missing and must be {must_be}")
    if not is_valid(state[name]):
        raise InvalidValueError(f"{name} must be {must_be}, got {state[name]!r}")
    return state[name]


def keep_valid(
    state: Mapping[str, Any], tests: Mapping[str, Callable[[Any], bool]], file: str, notes: list[str] | None = None
) -> dict[str, Any]:
    """Return the fields of a state from a `file` that pass their test; fields without a test are left out.

    For each field that does not pass, a sentence is appended to `notes`.
    """
    valid_fields = {}
    for name, is_valid in tests.items():
        if name not in state:
            continue
        if is_valid(state[name]):
            valid_fields[name] = state[name]
        elif notes is not None:
            notes.append(f"{name} in {file} was left out: its value {str(state[name])[:60]!r} has the wrong type.")
    return valid_fields


def as_tuple(one_or_several: str | Collection[str]) -> tuple[str, ...]:
    """Return a single string, or a collection of strings, as a tuple."""
    return (one_or_several,) if isinstance(one_or_several, str) else tuple(one_or_several)
