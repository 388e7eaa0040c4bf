"""Compares the pass@k of two models, each at the temperature that is best for k tries.

A higher temperature makes a model less accurate and its completions more varied. A method that
keeps the entropy high has the same effect, so a difference at one temperature may be a mere
difference of temperatures. Every model is therefore sampled at several temperatures:

    best pass@k     pass@k at the temperature with the largest mean over the side's runs on other
                    problems. These are the problems of a validation set. Without one, each half of
                    the problems chooses for the other half, in 20 random splits.
    F               the mean of the best pass@k over k = 1, 2, 4, 8, 16, up to the number of samples

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
        correct (`NDArray`): `[T, R, P]`, the number of correct samples by temperature, run and
            problem.
        samples (`int`): n, the number of samples of each problem.
    """

    temperatures: tuple[float, ...]
    correct: NDArray[np.int64]
    samples: int

    @property
    def tries(self) -> list[int]:
        """The numbers of tries in `TRIES` that do not exceed `samples`."""
        return [k for k in TRIES if k <= self.samples]

    def pass_at(self, k: int) -> Array:
        """Return unbiased estimates of pass@k, `[T, R, P]`."""
        table = [pass_at_k(self.samples, correct, k) for correct in range(self.samples + 1)]
        return np.array(table)[self.correct]


@dataclass(frozen=True)
class Row:
    """A row of a table: its labels by column, and the difference."""

    about: dict[str, Any]
    difference: Difference


@dataclass(frozen=True)
class Sides:
    """The two sides of a comparison, which have answered the same problems.

    Attributes:
        a, b (`Sweep`): the runs of each side, with the same number of samples.
        paired (`bool`): whether the n-th runs of both sides belong together.
    """

    a: Sweep
    b: Sweep
    paired: bool = False

    def difference(self, a: Array, b: Array) -> Difference:
        """Compare the values `[R_a, P]` of side A with the values `[R_b, P]` of side B."""
        return compare_values(a.tolist(), b.tolist(), paired=self.paired)


def pick_best_temperature(values: Array, choosing: Array | None = None) -> Array:
    """Return the values `[R, P]` at the temperature that is best on other problems.

    Args:
        values: `[T, R, P]`.
        choosing (*optional*): values `[T, R', P']` of the problems that choose the temperature.
            Without them, each half of the problems chooses for the other half, and the result is the
            mean over random splits.
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

    The result has a row for each k, and a row for F with `"mean"` as its k. The problems of
    `validation` choose the temperatures, which are the labels `temperature_a` and `temperature_b`.
    Without `validation`, the labels are the temperatures that all problems together would choose.
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
