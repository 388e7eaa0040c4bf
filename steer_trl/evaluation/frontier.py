"""Compares two models where each serves k tries best.

A model is a curve, and each temperature is a point of it.

A model that is sampled hotter is less accurate, and its tries differ more. A method that keeps the
entropy does the same, so a difference at one temperature may be a difference of temperatures only.
Here every model is sampled at several:

    pass@k at its best      at the temperature with the largest mean over the side's runs on other problems: those of a
                            validation set, or each half of the problems chooses for the other, in
                            20 random halves
    F                       the mean of pass@k at its best over k = 1, 2, 4, 8, 16

Intervals are those of `comparison.py`, over problems and runs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steer_trl.evaluation.comparison import Array, Difference, compare_values
from steer_trl.evaluation.metrics import pass_at_k

TRIES = (1, 2, 4, 8, 16)
HALVINGS = 20


@dataclass(frozen=True)
class Sweep:
    """The runs of one side at several temperatures.

    Attributes:
        temperatures (`tuple[float, ...]`): `[T]`, coldest first.
        correct (`NDArray`): `[T, R, P]`, how many samples of each problem are correct, by temperature
            and run.
        samples (`int`): n, drawn of each problem.
    """

    temperatures: tuple[float, ...]
    correct: NDArray[np.int64]
    samples: int

    @property
    def tries(self) -> list[int]:
        """The k that its samples allow."""
        return [k for k in TRIES if k <= self.samples]

    def pass_at(self, k: int) -> Array:
        """Return pass@k, `[T, R, P]`, estimated without bias."""
        table = [pass_at_k(self.samples, correct, k) for correct in range(self.samples + 1)]
        return np.array(table)[self.correct]


@dataclass(frozen=True)
class Row:
    """A line of a table: what is compared, by name, and the difference."""

    about: dict[str, Any]
    difference: Difference


@dataclass(frozen=True)
class Sides:
    """Two sides that have answered the same problems.

    Attributes:
        a, b (`Sweep`): with the same number of samples.
        paired (`bool`): whether the n-th runs of both belong together.
    """

    a: Sweep
    b: Sweep
    paired: bool = False

    def difference(self, a: Array, b: Array) -> Difference:
        """Compare values `[R_a, P]` and `[R_b, P]`."""
        return compare_values(a.tolist(), b.tolist(), paired=self.paired)


def pick_best_temperature(values: Array, choosing: Array | None = None) -> Array:
    """Return values `[R, P]` of `[T, R, P]`, at the temperature that is best on other problems.

    `choosing` are values `[T, R', P']` of the problems that choose. Without them each half of the
    problems chooses for the other, and the result is the mean over random halves.
    """
    if choosing is not None:
        return values[choosing.mean((1, 2)).argmax()]
    by_problem = values.mean(1)
    problems = values.shape[2]
    rng = np.random.default_rng(0)
    total = np.zeros(values.shape[1:])
    for _ in range(HALVINGS):
        order = rng.permutation(problems)
        first, second = order[: problems // 2], order[problems // 2 :]
        for judged, chooses in ((first, second), (second, first)):
            best = by_problem[:, chooses].mean(1).argmax()
            total[:, judged] += values[best][:, judged]
    return total / HALVINGS


def compare_best(sides: Sides, validation: Sides | None = None) -> list[Row]:
    """Compare pass@k at its best temperature.

    There is a row for each k, and one for F with `"mean"` as its k. The problems of `validation`
    choose the temperatures. `temperature_a` and `temperature_b` are what they choose, or without
    them what all problems would choose.
    """
    rows: list[Row] = []
    of_a, of_b = [], []
    for k in sides.a.tries:
        best_a, temperature_a = _pick_best(sides.a, validation.a if validation else None, k)
        best_b, temperature_b = _pick_best(sides.b, validation.b if validation else None, k)
        about = {"k": k, "temperature_a": temperature_a, "temperature_b": temperature_b}
        rows.append(Row(about, sides.difference(best_a, best_b)))
        of_a.append(best_a)
        of_b.append(best_b)
    mean = sides.difference(np.mean(of_a, axis=0), np.mean(of_b, axis=0))
    return [*rows, Row({"k": "mean"}, mean)]


def _pick_best(side: Sweep, validation: Sweep | None, k: int) -> tuple[Array, float]:
    """Return pass@k at the best temperature, and that temperature."""
    values = side.pass_at(k)
    choosing = validation.pass_at(k) if validation else None
    chosen = (values if choosing is None else choosing).mean((1, 2)).argmax()
    return pick_best_temperature(values, choosing), (validation or side).temperatures[chosen]
