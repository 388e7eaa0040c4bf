"""Defines the rule of an alarm: a number to read from the log, a threshold, and advice to the user.

`entropy_rules.py` and `learning_rules.py` hold the rules, each beside the function that reads its number. `watch.py`
decides when an alarm is raised. If the causes of an alarm have rules of their own, it names them in `explained_by`,
and is not raised while one of them holds. The text of an alarm must be true for any TRL trainer. If it advises a
setting that only this package has, it says so.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

Numbers = Mapping[str, float]
"""Maps each key of the log to its latest number. `watch.py` stores a few more numbers under names of its own."""
RuleReading = dict[str, float]
"""The numbers that a rule has read from the log.

`"value"` is the number that is compared with the rule's threshold, or NaN if it is unknown. All other numbers appear
in the text of the alarm.
"""

WINDOW = "steps of the entry"
"""The number of optimizer steps of the latest log entry (`logging_steps`). Some of its numbers are means over them."""


def find_no_words(log: Numbers) -> dict[str, str]:
    """Return no words. This is the default for a rule whose alarm text has only numbers as placeholders."""
    return {}


@dataclass(frozen=True)
class Rule:
    """The rule that decides when an alarm fires, with the text of the alarm.

    The alarm fires after a value has been at or beyond `fires` for `steps` optimizer steps. If `fires` exceeds
    `clears`, high values are bad; otherwise low values are bad. After the alarm has fired, it can fire again once the
    value is back at `clears`.

    Attributes:
        read (`callable`): computes a [`RuleReading`] from [`Numbers`]. Raises `KeyError` if the log has never had a
            key that it needs.
        text (`str`): what has happened and what to change, with placeholders for numbers and words.
        compared (`str`): a description of the compared number, for the documentation.
        find_words (`callable`): returns the words for the placeholders of the text, given [`Numbers`].
        explained_by (`tuple[str, ...]`): the names of earlier rules. If one of them holds, this rule may hold only as
            its consequence.
    """

    name: str
    title: str
    fires: float
    clears: float
    steps: int
    read: Callable[[Numbers], RuleReading]
    text: str
    compared: str
    level: str = "warning"
    find_words: Callable[[Numbers], dict[str, str]] = find_no_words
    explained_by: tuple[str, ...] = ()

    def try_to_read(self, log: Numbers) -> RuleReading | None:
        """Return the numbers of the rule, or `None` if the log has never had a key that the rule needs."""
        try:
            return self.read(log)
        except KeyError:
            return None

    def holds(self, value: float) -> bool:
        """Return whether the value is at or beyond `fires`. The result is false for NaN."""
        return value >= self.fires if self.fires > self.clears else value <= self.fires

    def is_explained(self, holding: Collection[str]) -> bool:
        """Return whether a rule that explains this one is among the rules that are `holding`."""
        return any(name in holding for name in self.explained_by)

    def has_recovered(self, value: float) -> bool:
        """Return whether the value is back at `clears`, so that the alarm can fire again."""
        return value <= self.clears if self.fires > self.clears else value >= self.clears


def read_key(key: str) -> Callable[[Numbers], RuleReading]:
    """Return a function that reads one key of the log."""
    return lambda log: {"value": log[key]}


def find_holding(rules: Iterable[Rule], log: Numbers) -> set[str]:
    """Return the names of the rules that hold now, whether or not their alarms have been raised."""
    holding = set()
    for rule in rules:
        reading = rule.try_to_read(log)
        if reading is not None and rule.holds(reading["value"]):
            holding.add(rule.name)
    return holding
