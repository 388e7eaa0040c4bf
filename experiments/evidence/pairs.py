"""The published runs of a task by arm, and pairs of them that share a start and a seed."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from experiments.evidence.several import OverStarts, compare_values
from experiments.lab.published import read_published
from experiments.lab.results import COLUMNS
from steer_trl.evaluation.folders import Evaluation

BASELINE = "GRPO, dynamic sampling"
JUDGED = ("constant level", "falling level")
"""The arms whose primary measures are corrected for being several."""
PROTOCOL = ("start", "GRPO", BASELINE, *JUDGED)
"""The arms of every start; others are controls."""

PRIMARY = {
    "accuracy, top-p 0.7": "accuracy top-p 0.7",
    "accuracy, temperature 1": "accuracy T=1",
    "pass@16, temperature 1": "pass@16 T=1",
}
"""What the page calls a measure, and what `lab` in experiments calls it."""
SECONDARY = {"accuracy, greedy": "accuracy greedy", "distinct, temperature 1": "distinct@16 T=1"}
LAST = 10
"""Rollouts over which the final entropy is averaged."""


class Run(NamedTuple):
    """A published run: what it was, and its evaluation by the name of the sampling."""

    record: dict[str, Any]
    evaluations: dict[str, Evaluation]

    @property
    def pair(self) -> tuple[int, int]:
        """What it has in common with a run of another arm: the seeds of start and training."""
        return self.record["start"], self.record["seed"]


Arms = dict[str, dict[tuple[int, int], Run]]


def load(folder: Path) -> Arms:
    """The runs of a folder, by arm and pair; the starts are an arm of their own."""
    arms: Arms = {}
    for path in sorted(folder.glob("*.json")):
        run = Run(json.loads(path.read_text()), read_published(path))
        arms.setdefault(run.record["arm"], {})[run.pair] = run
    return dict(sorted(arms.items(), key=lambda arm: (_place(arm[0]), arm[0])))


def _place(arm: str) -> int:
    return PROTOCOL.index(arm) if arm in PROTOCOL else len(PROTOCOL)


def mean_of(runs: Iterable[Run], measure: str) -> float:
    """The mean of a measure over problems and runs."""
    sampling, metric = COLUMNS[measure]
    return mean(mean(run.evaluations[sampling].values["test"][metric].values()) for run in runs)


def entropy_at_end(run: Run) -> float:
    """The mean of the last rollouts, nats per token."""
    return mean(filter(None, run.record["rollouts"]["entropy"][-LAST:]))


def swept(evaluations: Mapping[str, Evaluation]) -> dict[float, Evaluation]:
    """A run's evaluations by temperature, coldest first; each is named by its own, as in `"t0.5"`."""
    return dict(sorted((float(name[1:]), one) for name, one in evaluations.items()))


def pairs_of(arms: Arms, arm: str, baseline: str = BASELINE) -> list[tuple[int, int]]:
    """The starts and seeds that both arms have a run of."""
    return sorted(arms.get(arm, {}).keys() & arms.get(baseline, {}).keys())


def differences_of(arms: Arms, arm: str, baseline: str = BASELINE) -> dict[str, OverStarts]:
    """Of each measure, the arm against the baseline over the pairs that both have."""
    pairs = pairs_of(arms, arm, baseline)
    starts = [start for start, _ in pairs]
    found = {}
    for name, measure in (PRIMARY | SECONDARY).items():
        sampling, metric = COLUMNS[measure]
        sides = []
        for side in (baseline, arm):
            values = [arms[side][pair].evaluations[sampling].values["test"][metric] for pair in pairs]
            sides.append(np.array([[one[problem] for problem in values[0]] for one in values]))
        found[name] = compare_values(*sides, starts)
    return found
