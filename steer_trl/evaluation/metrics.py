"""Computes the metrics of a policy from several samples of each problem, and their 95 % intervals."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev

from steer_trl.monitoring.tries import pass_at_k

TAUS = (0.25, 0.5, 0.75)


def values_of_counts(num_samples: int, num_correct: Sequence[int]) -> dict[str, list[float]]:
    """Return the metrics that depend only on the number of correct samples of each problem.

    `avg@k` is the share of correct samples among the k samples of a problem. If k is above 1, there
    are also `pass@j` for j = 2, 4, 8, ... up to k, and `cover@tau`. A problem's `cover@tau` is 1 if
    at least the share tau of its samples is correct, and 0 otherwise (arXiv 2510.08325).

    Returns:
        a mapping from each metric to a list with its value for each problem.
    """
    values = {f"avg@{num_samples}": [count / num_samples for count in num_correct]}
    for j in (2**i for i in range(1, num_samples.bit_length())):
        values[f"pass@{j}"] = [pass_at_k(num_samples, count, j) for count in num_correct]
    for tau in TAUS if num_samples > 1 else ():
        values[f"cover@{tau}"] = [float(count >= tau * num_samples) for count in num_correct]
    return values


def majority_vote(votes: Sequence[str | None], correct: Sequence[bool]) -> float:
    """Return maj@k: the probability that a problem's most frequent answer is correct.

    Ties are broken at random. All correct answers are one candidate, however they are written.
    Incorrect answers are the same candidate if their normalised strings
    ([`~steer_trl.rewards.Verdict.vote`]) are equal. A sample without an answer (`None`) does not vote.
    If no sample votes, the result is 0.
    """
    num_correct = sum(correct)
    votes_for = Counter(
        vote for vote, is_correct in zip(votes, correct, strict=True) if not is_correct and vote is not None
    )
    most = max(votes_for.values(), default=0)
    if num_correct == 0 or num_correct < most:
        return 0.0
    return 1.0 if num_correct > most else 1 / (1 + sum(count == most for count in votes_for.values()))


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over problems and the half width of its 95 % confidence interval.

    The interval is a normal approximation. It covers the choice of problems, but not the seed of a
    training run. For a single value the half width is NaN.
    """
    half_width = 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return fmean(values), half_width
