"""The pilot's rule (protocol4.md, *The rule*), from the published records of the pilot.

score   the mean of pass@k over k = 1, 2, 4, 8, 16 at temperature 1 on the validation problems, and over the starts
rate    the one with the largest score; 5e-4 is tried if 2.5e-4 is not behind 1.25e-4
form    of those that are not behind the baseline by 1.5 points in one try, the one with the largest score
"""

from collections.abc import Mapping
from statistics import mean
from typing import Any

import numpy as np

from experiments.dial.analysis import TRIES, pass_at
from experiments.lab.published import DIGITS
from experiments.letgo.plan import BASELINE, NAMED, Plan, pilot_arm

LARGEST_LOSS = 0.015
"""How far a form may be behind the baseline in one try."""
Records = Mapping[tuple[str, int], dict[str, Any]]
"""The pilot's records by arm and start."""


class Pilot:
    """What the pilot's records say so far."""

    def __init__(self, plan: Plan, records: Records) -> None:
        self.plan, self.records = plan, records
        self.settings = plan["pilot"]

    def solved(self, arm: str, k: int) -> float | None:
        """Return pass@k at temperature 1, averaged over the starts; `None` while runs are missing."""
        records = [self.records.get((arm, start)) for start in self.settings["starts"]]
        found = [pass_at_temperature_one(record, self.settings["split"], k) for record in records if record]
        return mean(found) if len(found) == len(records) else None

    def score(self, arm: str) -> float | None:
        """Return the mean of pass@k over all k; `None` while runs are missing."""
        solved = [self.solved(arm, k) for k in TRIES]
        return None if None in solved else round(mean(one for one in solved if one is not None), 12)

    def rates(self, arm: str) -> list[float]:
        """Return the rates to be tried. The larger one is among them once the first two call for it."""
        larger, smaller = self.settings["rates"]
        scores = [self.score(pilot_arm(self.plan, arm, rate)) for rate in (larger, smaller)]
        asks = scores[0] is not None and scores[1] is not None and scores[0] >= scores[1]
        return [larger, smaller, self.settings["larger_rate"]] if asks else [larger, smaller]

    def rate(self, arm: str) -> float | None:
        """Return the arm's rate, and of equal ones the smaller; `None` while runs are missing."""
        scores = {rate: self.score(pilot_arm(self.plan, arm, rate)) for rate in sorted(self.rates(arm))}
        return None if None in scores.values() else max(scores, key=lambda rate: scores[rate] or 0.0)

    def form(self) -> str | None:
        """Return the form, and of equal ones the first in the plan; `None` while runs are missing."""
        rate, of_baseline = self.rate(NAMED), self.rate(BASELINE)
        if rate is None or of_baseline is None:
            return None
        arms = {form: pilot_arm(self.plan, NAMED, rate, form) for form in self.plan["forms"]}
        scores = {form: self.score(arm) for form, arm in arms.items()}
        if None in scores.values():
            return None
        first = {form: self.solved(arm, 1) or 0.0 for form, arm in arms.items()}
        least = (self.solved(pilot_arm(self.plan, BASELINE, of_baseline), 1) or 0.0) - LARGEST_LOSS
        allowed = [form for form in arms if first[form] >= least]
        value = scores if allowed else first
        return max(allowed or arms, key=lambda form: value[form] or 0.0)


def pass_at_temperature_one(record: dict[str, Any], split: str, k: int) -> float:
    """Return pass@k of a published record at temperature 1, a mean over the problems."""
    counts = record["evaluations"]["t1"]["benchmarks"][split]
    correct = np.array([int(digit, len(DIGITS)) for digit in counts["correct"]])
    return float(pass_at(counts["samples"], k)[correct].mean())
