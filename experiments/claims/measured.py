"""The numbers behind the answers: of the short runs, of the one-step measurement, and of the long runs."""

import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from scipy import stats

ROOT = Path(__file__).parents[2]
LAST = 5  # rollouts whose mean entropy is the final one
PLANNED = 3  # seeds of every arm; those with more were undecided, and are looked at twice (docs/evidence/protocol.md)
MARGIN = 0.024
"""Nats per token that count as no difference: a fifth of what GRPO loses in a short run."""

sys.path[:0] = [str(ROOT / "experiments" / name) for name in ("", "evidence")]
import pairs  # noqa: E402  # a script's neighbour, not a package


class Estimate(NamedTuple):
    """A mean and the half width of its interval (Student's t, 95 % unless said) over `count` runs or rollouts."""

    mean: float
    half: float
    count: int = 20

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes 0, else 0."""
        return 0 if abs(self.mean) <= self.half or self.count < 2 else 1 if self.mean > 0 else -1

    @property
    def is_none(self) -> bool:
        """Whether the whole interval is within the margin."""
        return self.count > 1 and abs(self.mean) + self.half <= MARGIN

    @property
    def plain(self) -> str:
        """Of something that is no difference: without a sign."""
        return str(self).removeprefix("+")

    def __str__(self) -> str:
        runs = "" if self.count == PLANNED else f" ({self.count})"
        return f"{self.mean:+.3f} (one run)" if self.count < 2 else f"{self.mean:+.3f} ±{self.half:.3f}{runs}"


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate | None:
    """The mean of the values and its interval; nothing of no values."""
    if not values:
        return None
    if len(values) == 1:
        return Estimate(values[0], float("inf"), 1)
    half = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return Estimate(mean(values), half, len(values))


def of_seeds(values: Sequence[float]) -> Estimate | None:
    """The same over the seeds of short runs; of 97.5 % where there are more than were planned."""
    return estimate(values, 0.95 if len(values) <= PLANNED else 0.975)


class ShortRuns:
    """The runs of `short_runs.py`, by arm and seed."""

    def __init__(self, path: Path) -> None:
        runs = json.loads(path.read_text()) if path.exists() else []
        self.runs: dict[str, dict[int, dict[str, Any]]] = {}
        for run in runs:
            self.runs.setdefault(run["arm"], {})[run["seed"]] = run

    def difference(self, arm: str, baseline: str = "GRPO", of: str = "entropy") -> Estimate | None:
        """What the arm has more than the baseline at the end, paired by seed: nats per token, or a share."""
        ours, theirs = self.runs.get(arm, {}), self.runs.get(baseline, {})
        return of_seeds(
            [_end(ours[seed], of) - _end(theirs[seed], of) for seed in sorted(ours.keys() & theirs.keys())]
        )

    def end(self, arm: str, of: str = "entropy") -> Estimate | None:
        """What the arm has at the end."""
        return of_seeds([_end(run, of) for _, run in sorted(self.runs.get(arm, {}).items())])

    def first(self, arm: str) -> Estimate | None:
        """The entropy of the arm's first two rollouts, nats per token."""
        return of_seeds([mean(run["rollouts"]["entropy"][:2]) for run in self.runs.get(arm, {}).values()])

    def trend(self, arm: str) -> Estimate | None:
        """Final minus first entropy of the arm, nats per token."""
        runs = self.runs.get(arm, {}).values()
        return of_seeds([_end(run, "entropy") - mean(run["rollouts"]["entropy"][:2]) for run in runs])

    def roughness(self, arm: str) -> Estimate | None:
        """Standard deviation of the entropy's change from rollout to rollout, nats per token."""
        runs = [run["rollouts"]["entropy"] for run in self.runs.get(arm, {}).values()]
        return of_seeds([stdev([b - a for a, b in pairwise(r)]) for r in runs])

    def clipped(self, arm: str, key: str) -> Estimate | None:
        """Mean share of the tokens that the loss clips."""
        return of_seeds([run["clipped"][key] for run in self.runs.get(arm, {}).values() if key in run["clipped"]])


def _end(run: dict[str, Any], of: str) -> float:
    return mean(run["rollouts"][of][-LAST:]) if of in run["rollouts"] else run["solved"][of]


class Published:
    """Means with the half widths of their intervals, by name: of `one_step.py`, and of the first long runs."""

    def __init__(self, path: Path) -> None:
        self.found = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str) -> Estimate | None:
        """One of its numbers; over the twenty rollouts of `one_step.py` where nothing else is said."""
        return Estimate(*self.found[key]) if key in self.found else None


class ProtocolRuns:
    """The runs of the protocol on the laptop task, which share its tuned learning rate (`docs/evidence/countdown`)."""

    def __init__(self, folder: Path) -> None:
        self.arms = pairs.load(folder)

    def difference(self, arm: str, baseline: str, measure: str) -> Estimate | None:
        """What the arm has more on the test split, over problems and runs, as `steer-trl compare --paired` has it."""
        count = len(pairs.pairs_of(self.arms, arm, baseline))
        if count < 2:
            return None
        found = pairs.differences_of(self.arms, arm, baseline)[measure]
        return Estimate(found.difference, (found.high - found.low) / 2, count)

    def entropy(self, arm: str, baseline: str) -> Estimate | None:
        """How much more entropy the arm ends with, nats per token."""
        both = pairs.pairs_of(self.arms, arm, baseline)
        ours, theirs = ([pairs.entropy_at_end(self.arms[name][pair]) for pair in both] for name in (arm, baseline))
        return estimate([mine - other for mine, other in zip(ours, theirs, strict=True)])


class ToolRuns:
    """The runs of `tools.py`, by arm and seed."""

    def __init__(self, path: Path) -> None:
        runs = json.loads(path.read_text()) if path.exists() else []
        self.runs = {(run["arm"], run["seed"]): run["steps"] for run in runs}

    def difference(self, key: str, last: int = 10) -> Estimate | None:
        """What STARE has more than GRPO at the end, mean over the last steps."""
        seeds = sorted(seed for arm, seed in self.runs if arm == "STARE" and ("GRPO", seed) in self.runs)
        return estimate(
            [mean(self.runs["STARE", s][key][-last:]) - mean(self.runs["GRPO", s][key][-last:]) for s in seeds]
        )

    def gain(self, arm: str, key: str, last: int = 10) -> Estimate | None:
        """Mean over the last steps minus that over the first."""
        runs = [steps[key] for (name, _), steps in sorted(self.runs.items()) if name == arm]
        return estimate([mean(run[-last:]) - mean(run[:last]) for run in runs])
