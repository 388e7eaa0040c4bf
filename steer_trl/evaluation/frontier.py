"""Compares the pass@k of two models, each at the temperature that is best for k tries.

A higher temperature makes a model less accurate and its completions more varied. A method that
keeps the entropy high has the same effect. So if two models are compared at one temperature only,
the difference between them may be no larger than that between two temperatures of the same model.
Every model is therefore sampled at several temperatures:

    best pass@k     pass@k at the temperature with the highest mean pass@k over the runs of a model.
                    The temperature is chosen on the problems of a validation set. Without one, each
                    half of the problems chooses the temperature for the other half, and the result
                    is averaged over 20 random splits.
    F               the mean of the best pass@k over k = 1, 2, 4, 8, 16, up to the number of samples

Intervals are over problems and runs, and are computed as in `comparison.py`.
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
class FrontierRow:
    """A row of the table that compares the two sides.

    Attributes:
        about (`dict`): maps the name of a column to a value that describes the row, such as k.
        difference (`Difference`): the difference of side B from side A.
    """

    about: dict[str, Any]
    difference: Difference


@dataclass(frozen=True)
class Sides:
    """The two sides of a comparison. The models of both sides have answered the same problems.

    Attributes:
        a, b (`Sweep`): the runs of each side, with the same number of samples.
        paired (`bool`): whether the n-th runs of both sides share an initial model or a seed.
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
        choosing (*optional*): values for R' runs on the P' problems with which the temperature is
            chosen, `[T, R', P']`. Without them, each half of the P problems chooses the temperature
            for the other half, and the result is the mean over random splits.

    Returns:
        the values at the best temperature, `[R, P]`.
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


def compare_best(sides: Sides, validation: Sides | None = None) -> list[FrontierRow]:
    """Compare the pass@k of the two sides, each at its best temperature.

    The result has a row for each k, and a last row for the mean over k. The columns `temperature_a`
    and `temperature_b` are the best temperatures on the problems of `validation`. Without
    `validation`, they are the best temperatures on all problems together.
    """
    rows: list[FrontierRow] = []
    of_a, of_b = [], []
    for k in sides.a.tries:
        best_a, temperature_a = _pick_best(sides.a, validation.a if validation else None, k)
        best_b, temperature_b = _pick_best(sides.b, validation.b if validation else None, k)
        about = {"k": k, "temperature_a": temperature_a, "temperature_b": temperature_b}
        rows.append(FrontierRow(about, sides.difference(best_a, best_b)))
        of_a.append(best_a)
        of_b.append(best_b)
    mean = sides.difference(np.mean(of_a, axis=0), np.mean(of_b, axis=0))
    return [*rows, FrontierRow({"k": "mean"}, mean)]


def _pick_best(side: Sweep, validation: Sweep | None, k: int) -> tuple[Array, float]:
    """Return pass@k for R runs and P problems `[R, P]` at the best temperature, and that temperature."""
    values = side.pass_at(k)
    choosing = validation.pass_at(k) if validation else None
    chosen = (values if choosing is None else choosing).mean((1, 2)).argmax()
    return pick_best_temperature(values, choosing), (validation or side).temperatures[chosen]
