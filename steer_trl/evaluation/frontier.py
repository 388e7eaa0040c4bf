"""Two models compared where each serves k tries best: a model is a curve, and one temperature is a point of it.

Sampled hotter, a model is less accurate and its tries differ more; a method that keeps the entropy does the same. So a
difference at one temperature may be one of temperatures only. Here every model has been sampled at several:

    pass@k at its best      at the temperature with the largest mean over the side's runs, on problems other than those
                            it is judged on: of a validation set, or each half by the other, over 20 random halves
    F                       the mean of these over k = 1, 2, 4, 8, 16
    at equal accuracy       B as accurate as A at each of A's temperatures: interpolated on B's curve
    with a fallback         m of the k tries go to another model:
                            1 - C(n - c, k - m) / C(n, k - m) * C(n' - c', m) / C(n', m)

Intervals are those of `comparison.py`, over problems and runs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steer_trl.evaluation.comparison import Array, Difference, compare_values
from steer_trl.evaluation.metrics import pass_at_k

TRIES = (1, 2, 4, 8, 16)
SPLITS = 20
SHARES = (8, 4, 2)
"""One in so many tries goes to the fallback: 2, 4 and 8 of 16."""


@dataclass(frozen=True)
class Sweep:
    """One side: its runs at several temperatures.

    Attributes:
        temperatures (`tuple[float, ...]`): `[T]`, coldest first.
        correct (`NDArray`): `[T, R, P]`, how many samples of each problem are correct, by temperature and run.
        samples (`int`): n, drawn of each problem.
    """

    temperatures: tuple[float, ...]
    correct: NDArray[np.int64]
    samples: int

    @property
    def tries(self) -> list[int]:
        """The k that its samples allow."""
        return [k for k in TRIES if k <= self.samples]

    def failed(self, k: int) -> Array:
        """Probability that none of `k` tries is correct, `[T, R, P]`, estimated without bias."""
        table = [1 - pass_at_k(self.samples, correct, k) for correct in range(self.samples + 1)]
        return np.array(table)[self.correct]

    def solved(self, k: int) -> Array:
        """pass@k, `[T, R, P]`."""
        return 1 - self.failed(k)

    def solved_with(self, other: "Sweep", k: int, m: int) -> Array:
        """pass@k if `m` of the `k` tries are the other's, `[T * T_other, R, P]`, the runs in the same order."""
        failed = self.failed(k - m)[:, None] * other.failed(m)
        return 1 - failed.reshape(-1, *self.correct.shape[1:])


@dataclass(frozen=True)
class Row:
    """A line of a table: what is compared, by name, and the difference."""

    about: dict[str, Any]
    difference: Difference


@dataclass(frozen=True)
class Sides:
    """Two sides that have answered the same problems.

    Attributes:
        a, b (`Sweep`): of the same number of samples.
        paired (`bool`): whether the n-th runs of both belong together.
        starts (`list[int]`, *optional*): of paired runs, which start each has.
        fallback_a (`Sweep`, *optional*), fallback_b (`Sweep`, *optional*): the other model of each run.
    """

    a: Sweep
    b: Sweep
    paired: bool = False
    starts: list[int] | None = None
    fallback_a: Sweep | None = None
    fallback_b: Sweep | None = None

    def difference(self, a: Array, b: Array) -> Difference:
        """Compare values `[R_a, P]` and `[R_b, P]`."""
        return compare_values(a.tolist(), b.tolist(), self.paired, self.starts)

    def solved_with_fallback(self, side: str, k: int, m: int) -> Array:
        """pass@k of side `"a"` or `"b"` with `m` of the `k` tries its fallback's, `[T, R, P]` or more temperatures."""
        own, other = getattr(self, side), getattr(self, f"fallback_{side}")
        return own.solved_with(other, k, m) if m else own.solved(k)


def at_best_temperature(values: Array, choosing: Array | None = None) -> Array:
    """Return values `[R, P]`, of `[T, R, P]`, at the temperature that is best on other problems.

    `choosing` are values `[T, R', P']` of the problems that choose; without them each half of the problems chooses for
    the other, and the result is the mean over random halves.
    """
    if choosing is not None:
        return values[choosing.mean((1, 2)).argmax()]
    by_problem, problems = values.mean(1), values.shape[2]
    rng = np.random.default_rng(0)
    total = np.zeros(values.shape[1:])
    for _ in range(SPLITS):
        order = rng.permutation(problems)
        halves = order[: problems // 2], order[problems // 2 :]
        for judged, chooses in (halves, halves[::-1]):
            total[:, judged] += values[by_problem[:, chooses].mean(1).argmax()][:, judged]
    return total / SPLITS


def compare_best(sides: Sides, validation: Sides | None = None) -> list[Row]:
    """Compare pass@k at its best temperature, a row for each k and one, `k` being `"mean"`, for F.

    `validation` has other problems, which choose. `temperature_a` and `temperature_b` are what they choose, or all
    problems do: where to sample for k tries.
    """
    rows, of_all = [], []
    for k in sides.a.tries:
        best, about = [], {"k": k}
        for name in ("a", "b"):
            values = getattr(sides, name).solved(k)
            choosing = getattr(validation, name).solved(k) if validation else None
            best.append(at_best_temperature(values, choosing))
            chosen = (values if choosing is None else choosing).mean((1, 2)).argmax()
            about[f"temperature_{name}"] = getattr(validation or sides, name).temperatures[chosen]
        of_all.append(best)
        rows.append(Row(about, sides.difference(*best)))
    a, b = (np.mean(values, axis=0) for values in zip(*of_all, strict=True))
    return [*rows, Row({"k": "mean"}, sides.difference(a, b))]


def compare_at_equal_accuracy(sides: Sides, k: int) -> list[Row]:
    """Compare pass@k where B is as accurate as A, a row for each of A's temperatures.

    Of paired runs each is matched with its own. A run of B that is nowhere as accurate stays in, at its most accurate
    temperature, and one that is more accurate everywhere at its hottest; `reached` counts the others.
    """
    rows = []
    accuracies, solved = ([side.solved(tries) for side in (sides.a, sides.b)] for tries in (1, k))
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


def compare_with_fallback(sides: Sides, k: int, validation: Sides | None = None) -> list[Row]:
    """Compare pass@k where `m` of the `k` tries go to another model, each side and the other at its best temperature.

    A row for each m of A and either none or m of B, in `fallback_a` and `fallback_b`.
    """

    def best(side: str, m: int) -> Array:
        values, *choosing = (one.solved_with_fallback(side, k, m) for one in (sides, validation) if one)
        return at_best_temperature(values, *choosing)

    shares = [k // share for share in SHARES if k >= share]
    return [
        Row({"k": k, "fallback_a": m, "fallback_b": of_b}, sides.difference(best("a", m), best("b", of_b)))
        for m in shares
        for of_b in (0, m)
    ]
