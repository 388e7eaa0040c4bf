"""Computes how much two models differ on the same problems, with a 95 % interval and a verdict.

    one model on each side      d_p = b_p - a_p         mean(d) ± t s(d) / sqrt(P)

Here a_p and b_p are the values of a metric for side A and side B on problem p, and P is the number
of problems. s is the standard deviation, and t is the 0.975 quantile of Student's t. Both models
have answered the same problems, so the interval is computed from the paired differences (Miller
2024, arXiv 2411.00640, section 4). The difficulty that a problem has for both models cancels out.

    several models on each side V = V_problems + V_models - V_interaction

V is the variance of the difference between the sides' means. Problems and models both vary, and are
crossed: every model answers every problem. V is the moment estimator of the two-way random-effects
analysis of variance, with Satterthwaite's degrees of freedom (Searle, Casella and McCulloch,
Variance Components, 1992, chapters 4 and 5). Without V_interaction, V would be the variance that
resampling both problems and models gives (Owen 2007, arXiv 0712.1111), which counts the interaction
twice.

    paired models               d_ip = b_ip - a_ip      V computed from d

Here d_ip is the difference between the i-th models of both sides on problem p. If these two models
share an initial model or a seed, its effect cancels out.

    n equal differences d       p = 2 / 2^n,  d ± |d| q / n

If all differences are equal, their variance is 0, and Student's t would give an interval of width 0.
Therefore p is the p-value of the exact sign test, and q is the 0.975 quantile of a sum of n random
signs. Five equal differences are too few for a verdict; six are enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # scipy.stats would take a second to import.

from steer_trl.support.validation import refuse

LEVEL = 0.95
# A standard error that is at most this share of the difference counts as a rounding error.
ROUNDING = 1e-9
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """The difference of a metric between side B and side A.

    Attributes:
        a (`float`), b (`float`): means of the metric over problems and models.
        difference (`float`), low (`float`), high (`float`): b - a, and its 95 % interval.
        p (`float`): the two-sided p-value for a difference of 0, from the same distribution as the
            interval.
        problems (`int`): number of problems that both sides have answered.
        seeds (`tuple[int, int]`): number of models on side A and on side B.
    """

    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    problems: int
    seeds: tuple[int, int] = (1, 1)

    @property
    def verdict(self) -> str:
        """The verdict on side B: `"higher"`, `"lower"`, or `"not decided"` if the interval contains 0."""
        if self.low > 0:
            return "higher"
        return "lower" if self.high < 0 else "not decided"

    def to_entry(self) -> dict[str, Any]:
        """Return the difference and its verdict as a dictionary for JSON."""
        return vars(self) | {"verdict": self.verdict}


def compare_values(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], *, paired: bool = False) -> Difference:
    """Compare the values of a metric on side A with its values on side B.

    Args:
        a, b: the values of each side, with a row for each model and a column for each problem. Both
            sides have the same problems in the same order. Both have one row, or both have at least
            two.
        paired (`bool`): whether the n-th models of both sides share an initial model or a seed.

    Raises:
        `ValueError`: the shapes do not match.
    """
    values_a = np.asarray(a, dtype=float)
    values_b = np.asarray(b, dtype=float)
    refuse(_complain_about_shapes(values_a, values_b, paired), "comparison")
    seeds = len(values_a), len(values_b)
    problems = values_a.shape[1]
    mean_a, mean_b = float(values_a.mean()), float(values_b.mean())
    difference = mean_b - mean_a
    of_problems = float((values_b.mean(0) - values_a.mean(0)).var(ddof=1)) / problems
    if seeds == (1, 1):
        interval = decide(difference, of_problems, problems - 1, problems)
        return Difference(mean_a, mean_b, difference, *interval, problems)
    tables = [values_b - values_a] if paired else [values_a, values_b]
    of_models = []
    for table in tables:
        variance_of_mean = float(table.mean(1).var(ddof=1)) / len(table)
        of_models.append((variance_of_mean, len(table) - 1))
    all_models = sum(variance for variance, _ in of_models)
    # The estimate may fall below the variance over problems or over models, but the true variance cannot.
    variance = max(of_problems + all_models - sum(map(_interaction, tables)), of_problems, all_models)
    degrees = satterthwaite(variance, [(of_problems, problems - 1), *of_models])
    interval = decide(difference, variance, degrees, min(problems, *seeds))
    return Difference(mean_a, mean_b, difference, *interval, problems, seeds)


def explain_interval(several: bool, paired: bool = False) -> str:
    """Return a sentence that explains the intervals of a table.

    If `several` is true, each side has several models. If `paired` is true, each model of side A is
    paired with a model of side B.
    """
    how = "the problems that both sides have answered (paired)"
    if several:
        models, of = ("pairs of runs", " of the paired differences") if paired else ("seeds", "")
        how = f"problems and {models} (two-way random effects{of}, Satterthwaite's degrees of freedom)"
    return f"Difference of B from A, with the 95 % interval over {how}."


def _complain_about_shapes(a: Array, b: Array, paired: bool) -> list[str]:
    counts = f"got {len(a)} and {len(b)}"
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        return [f"both sides must have the same problems, a row for each seed, got shapes {a.shape} and {b.shape}."]
    if a.shape[1] < 2:
        return ["both sides must have at least 2 problems: one has no interval."]
    if (len(a) == 1) != (len(b) == 1):
        why = "one model does not show how much a seed matters. Compare one with one, or evaluate more seeds."
        return [f"both sides must have one seed, or both several, {counts}: {why}"]
    if paired and len(a) != len(b):
        return [f"paired runs must be as many on both sides, {counts}. Give those that belong together."]
    return []


def decide(difference: float, variance: float, degrees: float, count: int) -> tuple[float, float, float]:
    """Return the lower and upper end of the 95 % interval of a difference, and its p-value.

    `variance` is the squared standard error of `difference`, with `degrees` degrees of freedom. If
    the variance is 0, the exact sign test for `count` equal differences is used.
    """
    deviation = math.sqrt(variance)
    if deviation <= ROUNDING * abs(difference):
        # scipy.stats is slow to import and rarely needed.
        from scipy.stats import binom

        heads = float(binom.ppf((1 + LEVEL) / 2, count, 0.5))
        half = abs(difference) * (2 * heads / count - 1)
        return difference - half, difference + half, 2.0 ** (1 - count) if difference else 1.0
    half = float(stdtrit(degrees, (1 + LEVEL) / 2)) * deviation
    p = 2 * float(stdtr(degrees, -abs(difference) / deviation))
    return difference - half, difference + half, p


def satterthwaite(variance: float, parts: Sequence[tuple[float, int]]) -> float:
    """Return Satterthwaite's degrees of freedom for a variance that has several components.

    `variance` is the total variance. `parts` holds the variance of each component and its degrees
    of freedom.
    """
    spread = sum(part**2 / degrees for part, degrees in parts)
    return variance**2 / spread if spread else 1.0


def _interaction(values: Array) -> float:
    """Return V_interaction for the mean of `values`.

    `values` has a row for each model and a column for each problem. The interaction is the part of a
    value that the effects of its model and of its problem do not explain. V_interaction is the
    variance of the mean that is due to the interaction.
    """
    models, problems = values.shape
    residuals = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
    variance = (residuals**2).sum() / ((models - 1) * (problems - 1))
    return float(variance / (models * problems))
