"""Makes further comparisons of runs, for the pages of the first two protocols.

over starts             Student's t over the mean differences of each start
paired by seed          Student's t over the differences of paired runs
at equal accuracy       B where it is as accurate as A at each of A's temperatures, interpolated on B's curve
with the start          m of the k tries are given to the start model, which has c' correct ones in n' samples:
                            1 - C(n - c, k - m) / C(n, k - m) * C(n' - c', m) / C(n', m)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steer_trl.evaluation import comparison
from steer_trl.evaluation.comparison import Array, Difference
from steer_trl.evaluation.frontier import Row, Sides, Sweep, pick_best_temperature

Interval = tuple[float, float]
SHARES = (8, 4, 2)
"""One try in 8, 4 or 2 is given to the start model, which is 2, 4 or 8 of 16 tries."""


@dataclass(frozen=True)
class OverStarts(Difference):
    """A difference of paired runs, with the intervals over runs and over starts alone.

    Attributes:
        paired_by_seed (`tuple[float, float]`, *optional*): the interval over the runs.
        over_starts (`tuple[float, float]`, *optional*): the interval over the mean differences of each start, if there
            are several starts.
    """

    paired_by_seed: Interval | None = None
    over_starts: Interval | None = None


def compare_values(a: Array, b: Array, starts: Sequence[int]) -> OverStarts:
    """Compare paired values `[S, P]` of S runs on P problems. `starts` holds the start of each run."""
    found = comparison.compare_values(a.tolist(), b.tolist(), paired=len(a) > 1)
    if len(a) == 1:
        return OverStarts(**vars(found))
    differences = b.mean(1) - a.mean(1)
    labels = np.asarray(starts)
    means = np.array([differences[labels == start].mean() for start in np.unique(labels)])
    over_starts = _students_interval(means) if len(means) > 1 else None
    return OverStarts(**vars(found), paired_by_seed=_students_interval(differences), over_starts=over_starts)


def _students_interval(differences: Array) -> Interval:
    count = len(differences)
    mean, variance = float(differences.mean()), float(differences.var(ddof=1)) / count
    return comparison.decide(mean, variance, count - 1, count)[:2]


@dataclass(frozen=True)
class Pairs(Sides):
    """Two sides whose n-th runs form a pair.

    Attributes:
        starts (`tuple[int]`): the seed of each pair's start model.
        fallback (`Sweep`, *optional*): the start model of each pair.
    """

    starts: tuple[int, ...] = ()
    fallback: Sweep | None = None

    def difference(self, a: Array, b: Array) -> OverStarts:
        """Compare values `[R, P]` of both sides, for R runs and P problems."""
        return compare_values(a, b, self.starts)

    def solved_with_fallback(self, side: str, k: int, m: int) -> Array:
        """Return pass@k of side `"a"` or `"b"` if `m` of the `k` tries are given to the start model.

        The shape is `[T, R, P]` (temperatures, runs, problems). For `m > 0`, the first axis has every combination of
        both models' temperatures.
        """
        own: Sweep = getattr(self, side)
        if m == 0:
            return own.pass_at(k)
        assert self.fallback is not None
        return solved_with(own, self.fallback, k, m)


def solved_with(own: Sweep, other: Sweep, k: int, m: int) -> Array:
    """Return pass@k if `m` of the `k` tries are given to the model `other`, `[T * T_other, R, P]`.

    The runs of both must be in the same order.
    """
    failed = (1 - own.pass_at(k - m))[:, None] * (1 - other.pass_at(m))
    return 1 - failed.reshape(-1, *own.correct.shape[1:])


def compare_at_equal_accuracy(sides: Pairs, k: int) -> list[Row]:
    """Compare pass@k where B is as accurate as A, with a row for each of A's temperatures.

    Paired runs are matched with each other. If a run of B is less accurate at all of its temperatures, its most
    accurate temperature is used. If it is more accurate at all of them, its highest temperature is used. `reached`
    counts the other runs.
    """
    rows = []
    accuracies, solved = ([side.pass_at(tries) for side in (sides.a, sides.b)] for tries in (1, k))
    for at, temperature in enumerate(sides.a.temperatures):
        accuracy, values = accuracies[0][at], solved[0][at]
        own = accuracy.mean(1)
        targets = own if sides.paired else np.full(sides.b.correct.shape[1], own.mean())
        curves = zip(accuracies[1].swapaxes(0, 1), solved[1].swapaxes(0, 1), targets, strict=True)
        matched, slopes, reached = map(np.array, zip(*(_interpolated(*one) for one in curves), strict=True))
        # Errors in the accuracy of A move the place on B's curve. Without this term the interval would be too narrow.
        slope = slopes[:, None] if sides.paired else slopes.mean()
        values = values - slope * (accuracy - (own[:, None] if sides.paired else own.mean()))
        about = {"temperature_a": temperature, "accuracy_a": float(own.mean()), "reached": int(reached.sum())}
        rows.append(Row(about, sides.difference(values, matched)))
    return rows


def _interpolated(accuracy: Array, solved: Array, target: float) -> tuple[Array, float, bool]:
    """Interpolate a curve `[T, P]` (temperatures, problems) at the accuracy `target`.

    Returns the values `[P]`, corrected for each problem's deviation from the target, the slope of the curve, and
    whether the curve reaches the target.
    """
    means = accuracy.mean(1)
    best = int(means.argmax())  # lower temperatures are neither more accurate nor more varied
    for i in range(best, len(means) - 1):
        if means[i] >= target > means[i + 1]:
            share = (means[i] - target) / (means[i] - means[i + 1])
            slope = (solved[i].mean() - solved[i + 1].mean()) / (means[i] - means[i + 1])
            here, values = ((1 - share) * curve[i] + share * curve[i + 1] for curve in (accuracy, solved))
            return values - slope * (here - target), float(slope), True
    end = best if target > means[best] else len(means) - 1
    return solved[end], 0.0, bool(np.isclose(target, means[end]))


def compare_with_fallback(sides: Pairs, k: int, validation: Pairs | None = None) -> list[Row]:
    """Compare pass@k if some of the `k` tries are given to the start model.

    Each side and the start model have their best temperatures. `fallback_a` and `fallback_b` are the numbers of these
    tries for A and B. For each number of A there are two rows, in which B has none or as many.
    """

    def best(side: str, m: int) -> Array:
        values, *choosing = (one.solved_with_fallback(side, k, m) for one in (sides, validation) if one)
        return pick_best_temperature(values, *choosing)

    shares = [k // share for share in SHARES if k >= share]
    return [
        Row({"k": k, "fallback_a": m, "fallback_b": of_b}, sides.difference(best("a", m), best("b", of_b)))
        for m in shares
        for of_b in (0, m)
    ]
