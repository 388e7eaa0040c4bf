"""Raises an alarm when its rule has held long enough, and not again until the value has recovered.

While a rule that explains it holds, an alarm is not raised, even if the explanation has not yet held long enough to be
raised itself. Such steps do not count for the alarm, and do not start its count anew: if the explanation comes and
goes, the alarm is raised later.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steer_trl.monitoring import key_names
from steer_trl.monitoring.entropy_rules import ENTROPY_RULES, LOWEST_START
from steer_trl.monitoring.learning_rules import LEARNING_RULES, remember_functions
from steer_trl.monitoring.rules import WINDOW, Numbers, Rule, find_holding
from steer_trl.monitoring.start import drop_empty_entropy, start_entropy
from steer_trl.support.validation import is_number, read_from_state

RULES = (*ENTROPY_RULES, *LEARNING_RULES)
"""The rules of all alarms."""

LAST_STEP = "last step"
"""The name under which the watch stores the step of the last log entry."""

OF_TRAINING = {key_names.LOSS, key_names.ENTROPY, key_names.SAMPLED_AS_SCORED}
"""Every log entry of training has at least one of these keys.

Transformers logs the loss, and TRL the entropy. The third is judged before the first log entry.
"""


@dataclass(frozen=True)
class Alarm:
    """An alarm that was raised, with its step, its rule, its text and the numbers in the text."""

    step: int
    alarm: str
    title: str
    text: str
    level: str
    numbers: dict[str, float]


class AlarmWatch:
    """Reads the log entries of a training run and raises alarms.

    The state of the watch is saved with every checkpoint.
    """

    def __init__(self, rules: Sequence[Rule] = RULES, facts: Mapping[str, float] | None = None) -> None:
        """Store the `rules`, and `facts` about the run that its log lacks, which the rules read as numbers."""
        self._rules = rules
        self._facts = facts or {}
        self._numbers: dict[str, float] = {}
        self._since: dict[str, int] = {}
        self._raised: set[str] = set()

    def read_entry(self, step: int, line: Mapping[str, Any]) -> list[Alarm]:
        """Process a log entry and return the alarms that it raises.

        A number that the entry lacks keeps its last value.
        """
        if not line.keys() & OF_TRAINING:
            return []
        read = drop_empty_entropy(line, self._numbers.get(key_names.CLIPPED_RATIO))
        self._numbers |= remember_functions(self._numbers, read)
        self._numbers |= {
            key: float(value) for key, value in read.items() if is_number(value) and math.isfinite(value)
        }
        start = start_entropy([read], self._numbers.get(key_names.START_ENTROPY))
        if start is not None:
            self._numbers[key_names.START_ENTROPY] = start
            self._numbers[LOWEST_START] = min(start, self._numbers.get(LOWEST_START, start))
        steps = step - int(self._numbers.get(LAST_STEP, step))
        if self._numbers:
            self._numbers[WINDOW] = step - self._numbers.get(LAST_STEP, 0)
            self._numbers[LAST_STEP] = step
        numbers = {**self._numbers, **self._facts}
        holding = find_holding(self._rules, numbers)
        judged = [self._judge(rule, numbers, holding, step, steps) for rule in self._rules]
        return [alarm for alarm in judged if alarm is not None]

    @property
    def has_read(self) -> bool:
        """Whether a log entry has been read."""
        return bool(self._numbers)

    def find_holding(self) -> set[str]:
        """Return the names of the rules that hold by the latest numbers, whether or not they have been raised."""
        return find_holding(self._rules, {**self._numbers, **self._facts})

    def _judge(self, rule: Rule, numbers: Numbers, holding: set[str], step: int, steps: int) -> Alarm | None:
        """Return the alarm of a rule if it is raised at `step`, which is `steps` after the previous log entry."""
        reading = rule.try_to_read(numbers)
        if reading is None:
            return None
        if rule.has_recovered(reading["value"]):
            self._raised.discard(rule.name)
        if rule.name not in holding:
            self._since.pop(rule.name, None)
            return None
        if rule.is_explained(holding):
            if rule.name in self._since:
                # The steps since the previous entry do not count.
                self._since[rule.name] += steps
            return None
        since = self._since.setdefault(rule.name, step)
        if rule.name in self._raised or step - since < rule.steps:
            return None
        self._raised.add(rule.name)
        text = rule.text.format(**reading, **rule.find_words(numbers))
        text = text[0].upper() + text[1:]
        return Alarm(step, rule.name, rule.title, text, rule.level, reading)

    def state_dict(self) -> dict[str, Any]:
        """Return the log's latest numbers, the step since which each rule has held, and the raised alarms."""
        if not self._numbers:
            return {}
        return {"numbers": self._numbers, "since": self._since, "raised": sorted(self._raised)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of [`state_dict`]. An empty `state` resets the watch to its initial state.

        Raises `ValueError` if a value is missing or invalid.
        """
        state = state or {"numbers": {}, "since": {}, "raised": []}
        numbers = read_from_state(state, "numbers", _are_numbers, "numbers by name")
        since = read_from_state(state, "since", _are_numbers, "numbers by name")
        raised = read_from_state(state, "raised", lambda value: isinstance(value, list), "a list of names")
        self._numbers = dict(numbers)
        self._since = dict(since)
        self._raised = set(raised)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))
