"""Measures a policy on problems with several samples each, with an interval over the problems."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev

from steer_trl.exceptions import InvalidValueError

TAUS = (0.25, 0.5, 0.75)


def values_of_counts(num_samples: int, num_correct: Sequence[int]) -> dict[str, list[float]]:
    """Return what follows from how many samples of each problem are correct, by metric.

    `avg@k`, the share of correct samples; with several samples `pass@j` for j = 2, 4, 8, ... up to
    k, and `cover@tau`, 1 for a problem of which at least the share tau of the samples is correct,
    else 0 (Cover@tau, arXiv 2510.08325).
    """
    values = {f"avg@{num_samples}": [count / num_samples for count in num_correct]}
    for j in (2**i for i in range(1, num_samples.bit_length())):
        values[f"pass@{j}"] = [pass_at_k(num_samples, count, j) for count in num_correct]
    for tau in TAUS if num_samples > 1 else ():
        values[f"cover@{tau}"] = [float(count >= tau * num_samples) for count in num_correct]
    return values


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Estimate without bias the probability that at least one of `k` samples is correct.

    `1 - C(n - c, k) / C(n, k)`, Chen et al. 2021 (arXiv 2107.03374), Eq. 1, of n = `num_samples` in
    which c = `num_correct` are correct; `k` in [1, n]. `ValueError` outside of these ranges.
    """
    if not (1 <= k <= num_samples and 0 <= num_correct <= num_samples):
        raise InvalidValueError(
            "pass@k needs 1 <= k <= num_samples and 0 <= num_correct <= num_samples, got "
            f"k={k}, num_correct={num_correct}, num_samples={num_samples}. Draw more samples or lower k."
        )
    return 1 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def majority_vote(votes: Sequence[str | None], correct: Sequence[bool]) -> float:
    """Return maj@k: the probability that a problem's most frequent answer is correct.

    Ties are broken at random. Correct answers are one candidate however they are written. Incorrect
    ones differ by their text, as [`~steer_trl.rewards.Verdict.vote`] normalises it. A sample
    without an answer (`None`) does not vote; without a single vote the result is 0.
    """
    num_correct = sum(correct)
    others = Counter(
        vote for vote, is_correct in zip(votes, correct, strict=True) if not is_correct and vote is not None
    )
    most = max(others.values(), default=0)
    if num_correct == 0 or num_correct < most:
        return 0.0
    return 1.0 if num_correct > most else 1 / (1 + sum(count == most for count in others.values()))


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over problems and the half width of its 95 % confidence interval.

    The interval is a normal approximation. The interval is about which problems were drawn, not
    about the seed of a training run. One value has no interval: half width NaN.
    """
    half_width = 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return fmean(values), half_width
