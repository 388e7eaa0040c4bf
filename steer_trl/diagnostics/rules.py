"""The rule of an alarm: the number that it reads from the log, when it fires, and its advice to the user.

`entropy_rules.py` and `learning_rules.py` hold the rules, each beside the function that reads its number. `watch.py`
decides when an alarm is raised. A text must be true under any TRL trainer, or name a setting as one of this package.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Numbers = Mapping[str, float]
"""The last number of each key of the log, and the numbers that `watch.py` remembers besides."""
Reading = dict[str, float]
"""The compared number under `"value"`, NaN if it is unknown, and the other numbers that the text names."""


def find_no_words(log: Numbers) -> dict[str, str]:
    """Return no words, for a text whose placeholders are all numbers."""
    return {}


@dataclass(frozen=True)
class Rule:
    """An alarm. It fires after its value has been at or beyond `fires` for `steps` optimizer steps.

    The value is on the bad side above `fires` if `fires` exceeds `clears`, and below it otherwise. The alarm can fire
    again once the value is back at `clears`.

    Attributes:
        read (`callable`): computes a [`Reading`] from [`Numbers`]. Raises `KeyError` if the log has never had a key
            that it needs.
        text (`str`): what has happened and what to change, with placeholders for numbers and words.
        compared (`str`): the compared number in words, for the documentation.
        find_words (`callable`): returns the words for the placeholders of the text, given [`Numbers`].
    """

    name: str
    title: str
    fires: float
    clears: float
    steps: int
    read: Callable[[Numbers], Reading]
    text: str
    compared: str
    level: str = "warning"
    find_words: Callable[[Numbers], dict[str, str]] = find_no_words

    def holds(self, value: float) -> bool:
        """Return whether the value is at or beyond `fires`; false if it is NaN."""
        return value >= self.fires if self.fires > self.clears else value <= self.fires

    def has_recovered(self, value: float) -> bool:
        """Return whether the value allows the alarm to fire again."""
        return value <= self.clears if self.fires > self.clears else value >= self.clears


def read_key(key: str) -> Callable[[Numbers], Reading]:
    """Return a function that reads one key of the log."""
    return lambda log: {"value": log[key]}
