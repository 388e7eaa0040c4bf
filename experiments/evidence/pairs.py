"""Reads the published runs of a task by arm, and compares runs that share a start and a seed."""

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
"""The arms whose primary measures are corrected for multiple comparisons."""
PROTOCOL = ("start", "GRPO", BASELINE, *JUDGED)
"""The arms that are run from every start. All others are controls."""

PRIMARY = {
    "accuracy, top-p 0.7": "accuracy top-p 0.7",
    "accuracy, temperature 1": "accuracy T=1",
    "pass@16, temperature 1": "pass@16 T=1",
}
"""Maps the name of a measure on the page to its name in `experiments/lab`."""
SECONDARY = {"accuracy, greedy": "accuracy greedy", "distinct, temperature 1": "distinct@16 T=1"}
LAST = 10
"""The number of last rollouts over which the final entropy is averaged."""


class Run(NamedTuple):
    """A published run: its record, and its evaluations by the name of their sampling."""

    record: dict[str, Any]
    evaluations: dict[str, Evaluation]

    @property
    def pair(self) -> tuple[int, int]:
        """The seeds of the start model and of training, which a run shares with runs of other arms."""
        return self.record["start"], self.record["seed"]


Arms = dict[str, dict[tuple[int, int], Run]]


def load(folder: Path) -> Arms:
    """Read the runs of a folder, by arm and pair of seeds. The start models are an arm of their own."""
    arms: Arms = {}
    for path in sorted(folder.glob("*.json")):
        run = Run(json.loads(path.read_text()), read_published(path))
        arms.setdefault(run.record["arm"], {})[run.pair] = run
    return dict(sorted(arms.items(), key=lambda arm: (_place(arm[0]), arm[0])))


def _place(arm: str) -> int:
    return PROTOCOL.index(arm) if arm in PROTOCOL else len(PROTOCOL)


def mean_of(runs: Iterable[Run], measure: str) -> float:
    """Return the mean of a measure over problems and runs."""
    sampling, metric = COLUMNS[measure]
    return mean(mean(run.evaluations[sampling].values["test"][metric].values()) for run in runs)


def entropy_at_end(run: Run) -> float:
    """Return the mean entropy of the last rollouts, in nats per token."""
    return mean(filter(None, run.record["rollouts"]["entropy"][-LAST:]))


def swept(evaluations: Mapping[str, Evaluation]) -> dict[float, Evaluation]:
    """Return evaluations by temperature, the lowest first. Their names must be like `"t0.5"`."""
    return dict(sorted((float(name[1:]), one) for name, one in evaluations.items()))


def pairs_of(arms: Arms, arm: str, baseline: str = BASELINE) -> list[tuple[int, int]]:
    """Return the pairs of start and seed for which both arms have a run."""
    return sorted(arms.get(arm, {}).keys() & arms.get(baseline, {}).keys())


def differences_of(arms: Arms, arm: str, baseline: str = BASELINE) -> dict[str, OverStarts]:
    """Return the difference between the arm and the baseline in each measure, over the pairs that both have."""
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
