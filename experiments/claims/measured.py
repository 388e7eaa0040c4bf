"""Computes the numbers behind the verdicts, with their intervals, from the published files."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev, variance
from typing import Any, NamedTuple

from scipy import stats

from experiments.evidence import pairs

ROOT = Path(__file__).parents[2]

LAST = 5
"""The number of rollouts averaged for the end of a short run, and for its middle."""
SHORT_CONFIDENCE = 0.975
"""The confidence of every interval of short runs.

The runs were analysed after three seeds and, for undecided rows, again after six, with an error of 5 % in total.
"""
ACCURACY, PASS = "top-p 0.7 accuracy", "T=1 pass@16"
IN_PROTOCOL = {ACCURACY: "accuracy, top-p 0.7", PASS: "pass@16, temperature 1"}
"""Maps the name of a measure in the first long runs to its name in those of the protocol."""

Run = dict[str, Any]
Measure = Callable[[Run], float]


class Estimate(NamedTuple):
    """A mean, the half width of its interval, and the number of runs ("3+6" for those of two arms)."""

    mean: float
    half: float
    runs: str

    @property
    def sign(self) -> int:
        """The sign of the mean if the interval excludes 0; otherwise 0."""
        return 0 if abs(self.mean) <= self.half else 1 if self.mean > 0 else -1

    @property
    def bound(self) -> float:
        """The largest absolute value in the interval."""
        return abs(self.mean) + self.half

    def above(self, other: "Estimate") -> "Estimate":
        """Return the difference from `other`, as if both were independent."""
        return Estimate(self.mean - other.mean, (self.half**2 + other.half**2) ** 0.5, self.runs)

    def __str__(self) -> str:
        return f"{self.mean:+.3f}±{self.half:.3f} ({self.runs})"


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return the mean over runs or pairs of runs, with its interval by Student's t."""
    half = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return Estimate(mean(values), half, str(len(values)))


def first(run: Run) -> float:
    """Return the mean entropy of the first two rollouts, in nats per token."""
    return mean(run["rollouts"]["entropy"][:2])


def end(run: Run) -> float:
    """Return the mean entropy of the last rollouts, in nats per token."""
    return mean(run["rollouts"]["entropy"][-LAST:])


def trend(run: Run) -> float:
    """Return the change of the entropy over training."""
    return end(run) - first(run)


def later_trend(run: Run) -> float:
    """Return the change of the entropy over the second half of training."""
    start = (len(run["rollouts"]["entropy"]) - LAST) // 2 + 1
    return end(run) - mean(run["rollouts"]["entropy"][start : start + LAST])


def roughness(run: Run) -> float:
    """Return the standard deviation of the entropy's change from rollout to rollout."""
    return stdev(after - before for before, after in pairwise(run["rollouts"]["entropy"]))


def reward(run: Run) -> float:
    """Return the mean reward of the last rollouts."""
    return mean(run["rollouts"]["reward"][-LAST:])


def greedy(run: Run) -> float:
    """Return the share of the held-out problems that are solved greedily."""
    return run["solved"]["greedy"]


def sampled(run: Run) -> float:
    """Return the share of the samples at temperature 1 that are correct."""
    return run["solved"]["accuracy"]


class ShortRuns:
    """The runs of `short_runs.py`, by arm."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.arms: dict[str, list[Run]] = {}
        for run in runs:
            self.arms.setdefault(run["arm"], []).append(run)
        self.spread = cache(self._spread)

    def _spread(self, measure: Measure) -> tuple[float, int]:
        """Return the standard deviation among runs of one arm, pooled over all arms, and its degrees of freedom."""
        several = [[measure(run) for run in runs] for runs in self.arms.values() if len(runs) > 1]
        freedom = sum(len(values) - 1 for values in several)
        return (sum(variance(values) * (len(values) - 1) for values in several) / freedom) ** 0.5, freedom

    def _estimate(self, value: float, measure: Measure, *arms: str) -> Estimate:
        spread, freedom = self.spread(measure)
        counts = [len(self.arms[arm]) for arm in arms]
        error = spread * sum(1 / count for count in counts) ** 0.5
        half = float(stats.t.ppf((1 + SHORT_CONFIDENCE) / 2, freedom)) * error
        return Estimate(value, half, "+".join(map(str, counts)))

    def mean(self, arm: str, measure: Measure) -> Estimate:
        """Return the mean of a measure over the runs of an arm."""
        return self._estimate(mean(map(measure, self.arms[arm])), measure, arm)

    def difference(self, arm: str, baseline: str = "GRPO", measure: Measure = end) -> Estimate:
        """Return the difference of a measure between an arm and the baseline."""
        ours, theirs = (mean(map(measure, self.arms[name])) for name in (arm, baseline))
        return self._estimate(ours - theirs, measure, arm, baseline)

    def correlation(self, measure: Measure) -> float:
        """Return Pearson's correlation of a measure with the entropy at the end, over all runs."""
        return float(stats.pearsonr(list(map(end, self.runs)), list(map(measure, self.runs))).statistic)


class ProtocolRuns:
    """The long runs of the protocol, which share a tuned learning rate (`experiments/results/countdown`)."""

    def __init__(self, folder: Path) -> None:
        self.arms = pairs.load(folder)

    def difference(self, arm: str, baseline: str, measure: str) -> Estimate | None:
        """Return the difference from the baseline on the test split, over problems and runs.

        Returns `None` if there are fewer than two pairs of runs.
        """
        count = len(pairs.pairs_of(self.arms, arm, baseline))
        if count < 2:
            return None
        found = pairs.differences_of(self.arms, arm, baseline)[IN_PROTOCOL[measure]]
        return Estimate(found.difference, (found.high - found.low) / 2, str(count))

    def trend(self, arm: str) -> Estimate:
        """Return the change of the entropy over training, in nats per token."""
        runs = self.arms[arm].values()
        return estimate([pairs.entropy_at_end(run) - first(run.record) for run in runs])

    def over_starts(self, arm: str, baseline: str, measure: str) -> Estimate:
        """Return the difference from the baseline, with an interval over the means of the starts alone."""
        column, by_start = pairs.PRIMARY[IN_PROTOCOL[measure]], {}
        for pair in pairs.pairs_of(self.arms, arm, baseline):
            ours, theirs = (pairs.mean_of([self.arms[name][pair]], column) for name in (arm, baseline))
            by_start.setdefault(pair[0], []).append(ours - theirs)
        return estimate(list(map(mean, by_start.values())))


class Data(NamedTuple):
    """All published results. Half widths that are stored in the files are those of 95 % intervals."""

    short: ShortRuns
    one_step: dict[str, Estimate]
    first: dict[str, Estimate]
    protocol: ProtocolRuns
    tools: dict[tuple[str, int], dict[str, list[float]]]

    @classmethod
    def read(cls, folder: Path = ROOT / "experiments/results/claims") -> "Data":
        """Read the files of a folder, and those of the protocol."""
        short, one_step, first_runs, tools = (
            json.loads((folder / f"{name}.json").read_text())
            for name in ("short_runs", "one_step", "first_runs", "tools")
        )
        return cls(
            ShortRuns(short),
            {name: Estimate(*values, "20") for name, values in one_step.items()},
            {name: Estimate(middle, half, str(count)) for name, (middle, half, count) in first_runs.items()},
            ProtocolRuns(ROOT / "experiments/results/countdown"),
            {(run["arm"], run["seed"]): run["steps"] for run in tools},
        )
