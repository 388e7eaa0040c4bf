"""Compares the pass@k of two models, each at the temperature that is best for k tries.

A higher temperature makes a model less accurate and its completions more varied. A method that
keeps the entropy high has the same effect. So if two models are compared at one temperature only,
their difference may be no more than that of one model at two temperatures. Every model is therefore
sampled at several temperatures:

    best pass@k     pass@k at the temperature where a side's runs have the largest mean pass@k on
                    other problems. The other problems are a validation set. If there is none, each
                    half of the problems chooses for the other half, in 20 random splits.
    F               the mean of the best pass@k over k = 1, 2, 4, 8, 16, up to the number of samples

Intervals are computed as in `comparison.py`, over problems and runs.
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
        temperatures (`tuple[float, ...]`): the T temperatures, lowest first.
        correct (`NDArray`): the number of correct samples at each temperature, in each of R runs and
            for each of P problems, `[T, R, P]`.
        samples (`int`): the number of samples of each problem.
    """

    temperatures: tuple[float, ...]
    correct: NDArray[np.int64]
    samples: int

    @property
    def tries(self) -> list[int]:
        """The values of k in `TRIES` that do not exceed the number of samples."""
        return [k for k in TRIES if k <= self.samples]

    def pass_at(self, k: int) -> Array:
        """Return an unbiased estimate of pass@k for each temperature, run and problem, `[T, R, P]`."""
        table = [pass_at_k(self.samples, correct, k) for correct in range(self.samples + 1)]
        return np.array(table)[self.correct]


@dataclass(frozen=True)
class Row:
    """A row of a table of differences.

    Attributes:
        about (`dict`): maps the name of a column to a value that describes the row, such as k.
        difference (`Difference`): the difference of side B from side A.
    """

    about: dict[str, Any]
    difference: Difference


@dataclass(frozen=True)
class Sides:
    """The two sides of a comparison, which have answered the same problems.

    Attributes:
        a, b (`Sweep`): the runs of each side, with the same number of samples.
        paired (`bool`): whether the n-th runs of both sides share a start or a seed.
    """

    a: Sweep
    b: Sweep
    paired: bool = False

    def difference(self, a: Array, b: Array) -> Difference:
        """Compare the values of side A with the values of side B.

        Both arrays have a row for each run of their side and a column for each problem.
        """
        return compare_values(a.tolist(), b.tolist(), paired=self.paired)


def pick_best_temperature(values: Array, choosing: Array | None = None) -> Array:
    """Return the values of each run and problem at the temperature that is best on other problems.

    Args:
        values: values of a metric at T temperatures, for R runs and P problems, `[T, R, P]`.
        choosing (*optional*): values on the problems that choose the temperature, `[T, R', P']`. If
            it is missing, each half of the P problems chooses for the other half, and the result is
            the mean over random splits.

    Returns:
        values `[R, P]`.
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
    """Compare the two sides by pass@k, each at its best temperature.

    The result has a row for each k, and a row with `"mean"` as its k for the mean over k. In a row,
    `temperature_a` and `temperature_b` are the temperatures that the problems of `validation`
    choose. Without `validation`, they are the temperatures that all problems together would choose.
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
    """Return pass@k at the best temperature for k, `[R, P]`, and the temperature."""
    values = side.pass_at(k)
    choosing = validation.pass_at(k) if validation else None
    chosen = (values if choosing is None else choosing).mean((1, 2)).argmax()
    return pick_best_temperature(values, choosing), (validation or side).temperatures[chosen]
