"""Compares more than the frontier does, for the pages of the first two protocols.

over starts             Student's t over the mean differences of each start
paired by seed          the same over the runs
at equal accuracy       B as accurate as A at each of A's temperatures, interpolated on B's curve
with the start          m of the k tries go to another model:
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
"""One in so many tries goes to the start: 2, 4 and 8 of 16."""


@dataclass(frozen=True)
class OverStarts(Difference):
    """A difference of paired runs, with the intervals over runs and over starts alone.

    Attributes:
        paired_by_seed (`tuple[float, float]`, *optional*): over the runs.
        over_starts (`tuple[float, float]`, *optional*): over the mean differences of each start, of
            several.
    """

    paired_by_seed: Interval | None = None
    over_starts: Interval | None = None


def compare_values(a: Array, b: Array, starts: Sequence[int]) -> OverStarts:
    """Compare paired values `[S, P]` of runs, of which `starts` names the start."""
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
    """Sides whose n-th runs belong together.

    Attributes:
        starts (`list[int]`): of each pair.
        fallback (`Sweep`, *optional*): the start of each pair.
    """

    starts: tuple[int, ...] = ()
    fallback: Sweep | None = None

    def difference(self, a: Array, b: Array) -> OverStarts:
        """Compare values `[R, P]` of both sides."""
        return compare_values(a, b, self.starts)

    def solved_with_fallback(self, side: str, k: int, m: int) -> Array:
        """Return pass@k of side `"a"` or `"b"` with `m` of the tries the start's, `[T, R, P]` or more temperatures."""
        own: Sweep = getattr(self, side)
        if m == 0:
            return own.pass_at(k)
        assert self.fallback is not None
        return solved_with(own, self.fallback, k, m)


def solved_with(own: Sweep, other: Sweep, k: int, m: int) -> Array:
    """Return pass@k if `m` of the `k` tries are the other's, `[T * T_other, R, P]`, the runs in the same order."""
    failed = (1 - own.pass_at(k - m))[:, None] * (1 - other.pass_at(m))
    return 1 - failed.reshape(-1, *own.correct.shape[1:])


def compare_at_equal_accuracy(sides: Pairs, k: int) -> list[Row]:
    """Compare pass@k where B is as accurate as A, a row for each of A's temperatures.

    Of paired runs each is matched with its own. A run of B that is nowhere as accurate stays in, at
    its most accurate temperature, and one that is more accurate everywhere at its hottest;
    `reached` counts the others.
    """
    rows = []
    accuracies, solved = ([side.pass_at(tries) for side in (sides.a, sides.b)] for tries in (1, k))
    for at, temperature in enumerate(sides.a.temperatures):
        accuracy, values = accuracies[0][at], solved[0][at]
        own = accuracy.mean(1)
        targets = own if sides.paired else np.full(sides.b.correct.shape[1], own.mean())
        curves = zip(accuracies[1].swapaxes(0, 1), solved[1].swapaxes(0, 1), targets, strict=True)
        matched, slopes, reached = map(np.array, zip(*(_interpolated(*one) for one in curves), strict=True))
        # What the accuracy of A is off by moves the place on B's curve: without this the interval was too narrow.
        slope = slopes[:, None] if sides.paired else slopes.mean()
        values = values - slope * (accuracy - (own[:, None] if sides.paired else own.mean()))
        about = {"temperature_a": temperature, "accuracy_a": float(own.mean()), "reached": int(reached.sum())}
        rows.append(Row(about, sides.difference(values, matched)))
    return rows


def _interpolated(accuracy: Array, solved: Array, target: float) -> tuple[Array, float, bool]:
    """Values `[P]` on a curve `[T, P]` at an accuracy, less what its own is off by; the slope; is it there?"""
    means = accuracy.mean(1)
    best = int(means.argmax())  # what is colder is neither more accurate nor more varied
    for i in range(best, len(means) - 1):
        if means[i] >= target > means[i + 1]:
            share = (means[i] - target) / (means[i] - means[i + 1])
            slope = (solved[i].mean() - solved[i + 1].mean()) / (means[i] - means[i + 1])
            here, values = ((1 - share) * curve[i] + share * curve[i + 1] for curve in (accuracy, solved))
            return values - slope * (here - target), float(slope), True
    end = best if target > means[best] else len(means) - 1
    return solved[end], 0.0, bool(np.isclose(target, means[end]))


def compare_with_fallback(sides: Pairs, k: int, validation: Pairs | None = None) -> list[Row]:
    """Compare pass@k where `m` of the `k` tries go to the start.

    Each side and the start have their best temperature. There is a row for each m of A, and either
    none or m of B, in `fallback_a` and `fallback_b`.
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
