"""The rules that choose, from published records on validation problems (protocol4.md, *The rule*, and blocks 2 and 3).

score   the mean of pass@k over k = 1, 2, 4, 8, 16 at temperature 1 on the validation problems, and over the starts
rate    the one with the largest score; 5e-4 is tried if 2.5e-4 is not behind 1.25e-4
form    of those that are not behind the baseline by 1.5 points in one try, the one with the largest score
look    the rates of a later block, by the largest score
"""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np

from experiments.dial.analysis import TRIES, pass_at
from experiments.lab.published import DIGITS
from experiments.letgo.plan import BASELINE, NAMED, Plan, at_rate, look_rates, pilot_arm

LARGEST_LOSS = 0.015
"""How far a form may be behind the baseline in one try."""
Records = Mapping[tuple[str, int], dict[str, Any]]
"""Records of the pilot or of a look, by arm and start."""


class Scores:
    """What arms solve of the validation problems at temperature 1, averaged over the starts."""

    def __init__(self, records: Records, starts: Sequence[int], split: str) -> None:
        self.records, self.starts, self.split = records, starts, split

    def solved(self, arm: str, k: int) -> float | None:
        """Return pass@k; `None` while runs are missing."""
        records = [self.records.get((arm, start)) for start in self.starts]
        found = [pass_at_temperature_one(record, self.split, k) for record in records if record]
        return mean(found) if len(found) == len(records) else None

    def score(self, arm: str) -> float | None:
        """Return the mean of pass@k over all k; `None` while runs are missing."""
        solved = [self.solved(arm, k) for k in TRIES]
        return None if None in solved else round(mean(one for one in solved if one is not None), 12)

    def best(self, arms: Mapping[float, str]) -> float | None:
        """Return the rate whose arm has the largest score, and of equal ones the smaller; `None` while runs are
        missing.
        """
        scores = {rate: self.score(arms[rate]) for rate in sorted(arms)}
        return None if None in scores.values() else max(scores, key=lambda rate: scores[rate] or 0.0)


class Pilot(Scores):
    """What the pilot's records say so far."""

    def __init__(self, plan: Plan, records: Records) -> None:
        super().__init__(records, plan["pilot"]["starts"], plan["pilot"]["split"])
        self.plan, self.settings = plan, plan["pilot"]

    def rates(self, arm: str) -> list[float]:
        """Return the rates to be tried. The larger one is among them once the first two call for it."""
        larger, smaller = self.settings["rates"]
        scores = [self.score(pilot_arm(self.plan, arm, rate)) for rate in (larger, smaller)]
        asks = scores[0] is not None and scores[1] is not None and scores[0] >= scores[1]
        return [larger, smaller, self.settings["larger_rate"]] if asks else [larger, smaller]

    def rate(self, arm: str) -> float | None:
        """Return the arm's rate, and of equal ones the smaller; `None` while runs are missing."""
        return self.best({rate: pilot_arm(self.plan, arm, rate) for rate in self.rates(arm)})

    def form(self) -> str | None:
        """Return the form, and of equal ones the first in the plan; `None` while runs are missing."""
        arms, of_baseline = self._forms(), self.rate(BASELINE)
        if not arms or of_baseline is None:
            return None
        first = {form: self.solved(arm, 1) or 0.0 for form, arm in arms.items()}
        least = (self.solved(pilot_arm(self.plan, BASELINE, of_baseline), 1) or 0.0) - LARGEST_LOSS
        allowed = [form for form in arms if first[form] >= least]
        value = {form: self.score(arm) for form, arm in arms.items()} if allowed else first
        return max(allowed or arms, key=lambda form: value[form] or 0.0)

    def form_by_tries(self, k: int) -> str | None:
        """Return the first of the forms that solve most in `k` tries; `None` while runs are missing."""
        arms = self._forms()
        return max(arms, key=lambda form: round(self.solved(arms[form], k) or 0.0, 9)) if arms else None

    def _forms(self) -> dict[str, str]:
        """Return the arm of each form at the rate of the named form; empty while runs are missing."""
        rate = self.rate(NAMED)
        arms = {} if rate is None else {form: pilot_arm(self.plan, NAMED, rate, form) for form in self.plan["forms"]}
        return {} if None in map(self.score, arms.values()) else arms


def look_scores(plan: Plan, block: str, records: Records) -> Scores:
    """Return the scores of the look before a block."""
    return Scores(records, plan["looks"][block]["starts"], plan["pilot"]["split"])


def look_choice(plan: Plan, block: str, records: Records) -> dict[str, float | None]:
    """Return the rate of each arm of the look before a block; `None` while runs are missing."""
    scores = look_scores(plan, block, records)
    return {
        arm: scores.best({rate: at_rate(plan, arm, rate, form=None) for rate in look_rates(plan, block, arm)})
        for arm in plan["looks"][block]["arms"]
    }


def score_of(counts: Mapping[str, Any]) -> float:
    """Return the mean of pass@k over all k from the published counts of a benchmark."""
    return mean(pass_at_counts(counts, k) for k in TRIES)


def pass_at_temperature_one(record: dict[str, Any], split: str, k: int) -> float:
    """Return pass@k of a published record at temperature 1, a mean over the problems."""
    return pass_at_counts(record["evaluations"]["t1"]["benchmarks"][split], k)


def pass_at_counts(counts: Mapping[str, Any], k: int) -> float:
    """Return pass@k from the published counts of a benchmark."""
    correct = np.array([int(digit, len(DIGITS)) for digit in counts["correct"]])
    return float(pass_at(counts["samples"], k)[correct].mean())
