"""Do two models differ? The difference of a metric on the same problems, and an interval that gives the verdict.

    one model on each side      d_p = b_p - a_p         mean(d) ± t s(d) / sqrt(P)

Both have answered the same P problems, so the interval is that of the paired differences (Student's t; Miller 2024,
arXiv 2411.00640, section 4): hard problems are hard for both, and drop out.

    several seeds on each side  V = V_problems + V_seeds - V_interaction

Then problems and seeds both vary, and are crossed: every seed answers every problem. V is the moment estimator of the
two-way random-effects analysis of variance, with Satterthwaite's degrees of freedom (Searle, Casella and McCulloch,
Variance Components, 1992, chapters 4 and 5); without its last term it is what resampling both would give (Owen 2007,
arXiv 0712.1111), which counts the interaction twice. Beside it stand Welch's interval over seeds alone, and the one
paired by seed.

    paired runs                 d_sp = b_sp - a_sp      V = V_problems + V_seeds - V_interaction, of d

Where the n-th run of both sides has something in common, a start, what is common drops out. Runs from one start still
resemble each other, so the interval over several starts alone stands beside it.

    n equal differences d       p = 2 / 2^n,  d ± |d| q / n

Student's t takes a variance of 0 for certainty. So p is that of the exact test of signs, and q the 0.975 quantile of a
sum of n random signs: five equal differences decide nothing, six do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to import

from steer_trl.validation import refuse

LEVEL = 0.95
SAME = 1e-9  # share of a difference that is rounding
Interval = tuple[float, float]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """How much larger a metric is on side B than on side A.

    Attributes:
        a (`float`), b (`float`): means over problems and seeds.
        difference (`float`), low (`float`), high (`float`): b - a, and its 95 % interval.
        p (`float`): the two-sided p-value of a difference of 0, by the same distribution as the interval.
        problems (`int`): how many both sides have answered.
        seeds (`tuple[int, int]`): models on side A, on side B.
        welch (`tuple[float, float]`, *optional*): the interval over the seeds alone, unpaired; with several seeds.
        paired_by_seed (`tuple[float, float]`, *optional*): the same, paired by seed; with as many on both sides.
        over_starts (`tuple[float, float]`, *optional*): that of the mean differences of each start; with paired runs.
    """

    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    problems: int
    seeds: tuple[int, int] = (1, 1)
    welch: Interval | None = None
    paired_by_seed: Interval | None = None
    over_starts: Interval | None = None

    @property
    def verdict(self) -> str:
        """`"higher"` or `"lower"` on side B, or `"not decided"`: what follows from the interval alone."""
        return "higher" if self.low > 0 else "lower" if self.high < 0 else "not decided"


def compare_values(
    a: Sequence[Sequence[float]],
    b: Sequence[Sequence[float]],
    paired: bool = False,
    starts: Sequence[int] | None = None,
) -> Difference:
    """Compare the values of a metric, one row for each seed, one column for each problem.

    Args:
        a, b: `[S_a, P]` and `[S_b, P]`, the same problems in the same order; one row each, or at least two each.
        paired (`bool`): whether the n-th rows of both sides belong together, with a start and a seed in common.
        starts (`Sequence[int]`, *optional*): of paired rows, which start each has.
    """
    values_a, values_b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    refuse(_complaints(values_a, values_b, paired), "comparison")
    seeds, problems = (len(values_a), len(values_b)), values_a.shape[1]
    means = float(values_a.mean()), float(values_b.mean())
    difference = means[1] - means[0]
    by_problem = values_b.mean(0) - values_a.mean(0)
    of_problems = by_problem.var(ddof=1) / problems
    if seeds == (1, 1):
        return Difference(*means, difference, *_decided(difference, of_problems, problems - 1, problems), problems)
    tables = [values_b - values_a] if paired else [values_a, values_b]
    of_seeds = [(table.mean(1).var(ddof=1) / len(table), len(table) - 1) for table in tables]
    by_seeds = sum(part for part, _ in of_seeds)
    total = max(of_problems + by_seeds - sum(map(_interaction, tables)), of_problems, by_seeds)
    degrees = _satterthwaite(total, [(of_problems, problems - 1), *of_seeds])
    means_a, means_b = values_a.mean(1), values_b.mean(1)
    return Difference(
        *means,
        difference,
        *_decided(difference, total, degrees, min(problems, *seeds)),
        problems,
        seeds,
        welch=welch(means_a, means_b),
        paired_by_seed=_paired(means_b - means_a) if seeds[0] == seeds[1] else None,
        over_starts=_over_starts(means_b - means_a, starts) if paired and starts is not None else None,
    )


def explained(several: bool, paired: bool = False) -> str:
    """Return a sentence on the intervals of a table, of one seed on each side or of several, perhaps in pairs."""
    how = "the problems that both sides have answered (paired)"
    if several:
        seeds, of = ("pairs of runs", " of the paired differences") if paired else ("seeds", "")
        how = (
            f"problems and {seeds} (two-way random effects{of}, Satterthwaite's degrees of freedom); beside it the "
            f"intervals over {'runs' if paired else 'seeds'} alone"
        )
    return f"Difference of B from A, with the 95 % interval over {how}."


def _complaints(a: Array, b: Array, paired: bool) -> list[str]:
    counts = f"got {len(a)} and {len(b)}"
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        return [f"both sides must have the same problems, a row for each seed, got shapes {a.shape} and {b.shape}."]
    if a.shape[1] < 2:
        return ["both sides must have at least 2 problems: one has no interval."]
    if (len(a) == 1) != (len(b) == 1):
        why = "how much a seed matters cannot be learned from one. Compare one with one, or evaluate more seeds."
        return [f"both sides must have one seed, or both several, {counts}: {why}"]
    if paired and len(a) != len(b):
        return [f"paired runs must be as many on both sides, {counts}. Give those that belong together."]
    return []


def _decided(difference: float, variance: float, degrees: float, count: int) -> tuple[float, float, float]:
    """Both ends of the 95 % interval of a difference, and the p-value of none; of `count` differences."""
    deviation = math.sqrt(variance)
    if deviation <= SAME * abs(difference):
        from scipy.stats import binom  # rarely needed, and slow to import

        half = abs(difference) * (2 * float(binom.ppf((1 + LEVEL) / 2, count, 0.5)) / count - 1)
        return difference - half, difference + half, 2.0 ** (1 - count) if difference else 1.0
    half = float(stdtrit(degrees, (1 + LEVEL) / 2)) * deviation
    return difference - half, difference + half, 2 * float(stdtr(degrees, -abs(difference) / deviation))


def _satterthwaite(total: float, parts: Sequence[tuple[float, int]]) -> float:
    """The degrees of freedom of a variance that is put together from parts, each with its own."""
    spread = sum(part**2 / degrees for part, degrees in parts)
    return total**2 / spread if spread else 1.0


def _interaction(values: Array) -> float:
    """The share of a mean's variance that is neither the problems' nor the seeds', of `[S, P]`."""
    seeds, problems = values.shape
    rest = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
    return float((rest**2).sum() / ((seeds - 1) * (problems - 1)) / (seeds * problems))


def welch(a: Array, b: Array) -> Interval:
    """Return the 95 % interval of `b.mean() - a.mean()`, unpaired (Welch), of two or more values each."""
    parts = [(side.var(ddof=1) / len(side), len(side) - 1) for side in (a, b)]
    total = sum(part for part, _ in parts)
    count = min(len(a), len(b))
    return _decided(float(b.mean() - a.mean()), total, _satterthwaite(total, parts), count)[:2]


def _paired(differences: Array) -> Interval:
    count = len(differences)
    return _decided(float(differences.mean()), differences.var(ddof=1) / count, count - 1, count)[:2]


def _over_starts(differences: Array, starts: Sequence[int]) -> Interval | None:
    """The interval over the mean differences of each start; `None` of a single one."""
    labels = np.asarray(starts)
    means = np.array([differences[labels == start].mean() for start in np.unique(labels)])
    return _paired(means) if len(means) > 1 else None
