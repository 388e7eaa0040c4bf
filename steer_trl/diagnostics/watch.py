"""When an alarm is raised: once per episode, after its rule has held for its steps; armed again after recovery."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steer_trl.diagnostics import rules
from steer_trl.diagnostics.keys import names
from steer_trl.diagnostics.rules import Rule
from steer_trl.diagnostics.start import of_tokens, start_entropy
from steer_trl.validation import from_state, is_number

RULES = (*rules.RULES, *rules.NO_LEARNING)
"""Every alarm there is."""

OF_TRAINING = {names.LOSS, names.ENTROPY}
"""Keys of which a line of a training has one: Transformers logs the one, TRL the other; a patched TRL may not."""


@dataclass(frozen=True)
class Alarm:
    """An alarm that was raised: at which step, by which rule, and the numbers that its text names."""

    step: int
    alarm: str
    title: str
    text: str
    level: str
    numbers: dict[str, float]


class Watch:
    """Reads the lines of a training's log and raises alarms. What it remembers goes into the checkpoint."""

    def __init__(self, rules: Sequence[Rule] = RULES) -> None:
        self._rules = rules
        self._numbers: dict[str, float] = {}
        self._since: dict[str, int] = {}
        self._raised: set[str] = set()

    def take(self, step: int, line: Mapping[str, Any]) -> list[Alarm]:
        """Take a line of the log and return what is to be said now. What a line does not have holds until the next."""
        if not line.keys() & OF_TRAINING:
            return []
        read = of_tokens(line, self._numbers.get(names.CLIPPED_RATIO))
        self._numbers |= rules.remembered(self._numbers, read)
        self._numbers |= {
            key: float(value) for key, value in read.items() if is_number(value) and math.isfinite(value)
        }
        start = start_entropy([read], self._numbers.get(names.START_ENTROPY))
        if start is not None:
            self._numbers[names.START_ENTROPY] = start
            self._numbers[rules.LOWEST_START] = min(start, self._numbers.get(rules.LOWEST_START, start))
        return [alarm for rule in self._rules if (alarm := self._judge(rule, step)) is not None]

    def _judge(self, rule: Rule, step: int) -> Alarm | None:
        try:
            numbers = rule.measure(self._numbers)
        except KeyError:
            return None
        value = numbers["value"]
        if rule.recovered(value):
            self._raised.discard(rule.name)
        if not rule.holds(value):  # nor does it where the value is NaN
            self._since.pop(rule.name, None)
            return None
        since = self._since.setdefault(rule.name, step)
        if rule.name in self._raised or step - since < rule.steps:
            return None
        self._raised.add(rule.name)
        text = rule.text.format(**numbers, **rule.words(self._numbers))
        return Alarm(step, rule.name, rule.title, text[0].upper() + text[1:], rule.level, numbers)

    def state_dict(self) -> dict[str, Any]:
        """Return the last numbers, the steps since which rules hold, and what has been said; empty at the start."""
        if not self._numbers:
            return {}
        return {"numbers": self._numbers, "since": self._since, "raised": sorted(self._raised)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`]; an empty one is the start.

        Raises `ValueError` if a value is missing or invalid.
        """
        state = state or {"numbers": {}, "since": {}, "raised": []}
        numbers, since = (from_state(state, name, _are_numbers, "numbers by name") for name in ("numbers", "since"))
        raised = from_state(state, "raised", lambda x: isinstance(x, list), "a list of names")
        self._numbers, self._since, self._raised = dict(numbers), dict(since), set(raised)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))
