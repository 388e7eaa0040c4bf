"""Analyses the published files of protocol 3, start by start.

pass@k        1 - C(n - c, k) / C(n, k), if c of n samples are correct
best pass@k   pass@k on the test problems, with the sampling that has the largest mean on the validation problems
F             the mean of the best pass@k over k = 1, 2, 4, 8, 16
mixture       1 - (1 - pass@m of the model) (1 - pass@(k - m) of its start model); the validation problems also choose
              m and both samplings
"""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.lab.published import entropies_of, read_counts

TRIES = (1, 2, 4, 8, 16)
CHOOSE, JUDGE = "validation", "test"
Array = NDArray[np.float64]


class Counts(NamedTuple):
    """The number of samples per problem and, for each problem, how many are correct and how many of these differ."""

    samples: int
    correct: NDArray[np.int64]
    distinct: NDArray[np.int64]


class Best(NamedTuple):
    """The share of test problems that are solved, with the choice made on the validation problems."""

    value: float
    choice: Any


@dataclass(frozen=True)
class Run:
    """A published run or start model: its record, and its counts by split and sampling."""

    record: dict[str, Any]
    counts: dict[str, dict[str, Counts]]  # by split, then by sampling

    @cached_property
    def samplings(self) -> tuple[str, ...]:
        """The names of the run's samplings."""
        return tuple(self.counts[CHOOSE])

    def solved(self, split: str, sampling: str, k: int) -> Array:
        """Return pass@k of every problem."""
        one = self.counts[split][sampling]
        return pass_at(one.samples, k)[one.correct]


@cache
def pass_at(samples: int, k: int) -> Array:
    """Return pass@k for 0 to `samples` correct samples."""
    return np.array([1 - comb(samples - correct, k) / comb(samples, k) for correct in range(samples + 1)])


def read_run(path: Path) -> Run:
    """Read a published file."""
    record = json.loads(path.read_text())
    return Run(record, _by_split({name: one["counts"] for name, one in read_counts(path).items()}))


def read_checkpoints(run: Run) -> list[Run]:
    """Return the checkpoints of a run as runs, the earliest first."""
    found = []
    for checkpoint in run.record.get("checkpoints", ()):
        path_like = {name: one["benchmarks"] for name, one in checkpoint["evaluations"].items()}
        found.append(Run(checkpoint, _by_split(path_like)))
    return found


def _by_split(evaluations: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, Counts]]:
    counts: dict[str, dict[str, Counts]] = {}
    for sampling, benchmarks in evaluations.items():
        for split, one in benchmarks.items():
            correct = _numbers(one["correct"])
            distinct = _numbers(one["distinct"]) if "distinct" in one else correct
            counts.setdefault(split, {})[sampling] = Counts(one["samples"], correct, distinct)
    return counts


def _numbers(column: str | list[int]) -> NDArray[np.int64]:
    return np.array([int(digit, 36) for digit in column] if isinstance(column, str) else column)


def best(run: Run, k: int, samplings: tuple[str, ...] = (), judge: str = JUDGE) -> Best:
    """Return pass@k with the sampling that is best on the validation problems, out of `samplings` or all."""
    allowed = [name for name in samplings or run.samplings if run.counts[CHOOSE][name].samples >= k]
    # Equal means can differ in their last bit. Of equal ones the first counts.
    chosen = max(allowed, key=lambda name: round(float(run.solved(CHOOSE, name, k).mean()), 12))
    return Best(float(run.solved(judge, chosen, k).mean()), chosen)


def frontier(run: Run, samplings: tuple[str, ...] = ()) -> float:
    """Return F, the mean of the best pass@k."""
    return float(np.mean([best(run, k, samplings).value for k in TRIES]))


def best_mixture(run: Run, start: Run, k: int) -> Best:
    """Return pass@k with m tries of the model and k - m of its start model, at the best m and samplings."""
    options = []
    for m in range(k + 1):
        ours = _failures(run, m)
        others = _failures(start, k - m)
        names, other_names = list(ours[CHOOSE]), list(others[CHOOSE])
        chooses = np.stack(list(ours[CHOOSE].values()))
        other_chooses = np.stack(list(others[CHOOSE].values()))
        failed = np.round(chooses @ other_chooses.T / chooses.shape[1], 12)
        row, column = np.unravel_index(failed.argmin(), failed.shape)
        judged = ours[JUDGE][names[row]] * others[JUDGE][other_names[column]]
        options.append((failed.min(), 1 - float(judged.mean()), (m, names[row], other_names[column])))
    _, value, choice = min(options, key=lambda option: option[0])
    return Best(value, choice)


def mixture_frontier(run: Run, start: Run) -> float:
    """Return F of the best mixture of a model with its start model."""
    return float(np.mean([best_mixture(run, start, k).value for k in TRIES]))


def _failures(run: Run, k: int) -> dict[str, dict[str, Array]]:
    """Return the probability that `k` tries all fail, for every problem, by split and sampling."""
    if k == 0:
        sizes = {split: len(next(iter(one.values())).correct) for split, one in run.counts.items()}
        return {split: {"": np.ones(size)} for split, size in sizes.items()}
    allowed = [name for name in run.samplings if run.counts[CHOOSE][name].samples >= k]
    return {split: {name: 1 - run.solved(split, name, k) for name in allowed} for split in (CHOOSE, JUDGE)}


def at_temperature_one(run: Run) -> tuple[float, float, float]:
    """Return pass@1, pass@16 and the mean number of different correct answers in 16, at temperature 1."""
    distinct = run.counts[JUDGE]["t1"].distinct.mean()
    return float(run.solved(JUDGE, "t1", 1).mean()), float(run.solved(JUDGE, "t1", 16).mean()), float(distinct)


def tries_needed(curve: list[float], solved: float) -> float:
    """Return how many tries solve the share `solved`, interpolated; infinity if 16 do not.

    `curve` has the share that is solved in 0 to 16 tries.
    """
    for k in range(1, 17):
        if curve[k] >= solved:
            return k - 1 + (solved - curve[k - 1]) / (curve[k] - curve[k - 1])
    return float("inf")


def entropy_share(run: Run) -> float:
    """Return the mean entropy of the rollouts in the second half of the tokens, divided by that of the first four."""
    return _late_entropy(run) / _initial_entropy(run)


def is_held(run: Run, level: float | None = None) -> bool | None:
    """Return whether the entropy in the second half is within 10 % of its target.

    A run without a target, such as one with a KL penalty, is compared with the share `level` of its initial entropy.
    Without a level the result is `None`.
    """
    targets = [one for one in run.record["rollouts"].get("hold_entropy/target", ()) if one is not None]
    if targets:
        target = targets[-1]
    elif level is not None:
        target = level * _initial_entropy(run)
    else:
        return None
    return bool(abs(_late_entropy(run) / target - 1) <= 0.1)


def _initial_entropy(run: Run) -> float:
    entropies = [one for one in entropies_of(run.record["rollouts"]) if one is not None]
    return float(np.mean(entropies[:4]))


def _late_entropy(run: Run) -> float:
    rollouts = run.record["rollouts"]
    pairs = list(zip(rollouts["generated_tokens"], entropies_of(rollouts), strict=True))
    half = pairs[-1][0] / 2
    return float(np.mean([entropy for tokens, entropy in pairs if tokens > half and entropy is not None]))


class Interval(NamedTuple):
    """The mean of a number over starts, its 95 % interval (Student's t), and the p-value for a mean of 0."""

    mean: float
    low: float
    high: float
    p: float
    starts: int

    @property
    def half(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


def over_starts(values: list[float]) -> Interval:
    """Return the interval of values that have one number per start. With fewer than two, it has no bounds."""
    found = np.array(values, dtype=float)
    mean = float(found.mean()) if len(found) else float("nan")
    if len(found) < 2:
        return Interval(mean, float("-inf"), float("inf"), 1.0, len(found))
    error = float(found.std(ddof=1) / np.sqrt(len(found)))
    if error == 0:
        return Interval(mean, mean, mean, float(mean == 0), len(found))
    half = float(stats.t.ppf(0.975, len(found) - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, len(found) - 1))
    return Interval(mean, mean - half, mean + half, p, len(found))


def over_pairs(values: dict[tuple[int, int], float]) -> Interval:
    """Return the interval of values that have one number per pair of starts, by the jackknife over starts."""
    starts = sorted({start for pair in values for start in pair})
    mean = float(np.mean(list(values.values())))
    without = [np.mean([value for pair, value in values.items() if start not in pair]) for start in starts]
    count = len(starts)
    error = float(np.sqrt((count - 1) / count * np.sum((np.array(without) - np.mean(without)) ** 2)))
    half = float(stats.t.ppf(0.975, count - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1)) if error else float(mean == 0)
    return Interval(mean, mean - half, mean + half, p, count)


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """Return p-values corrected by Holm's method."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda one: one[1])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        corrected[name] = largest
    return corrected
