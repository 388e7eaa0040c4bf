"""Estimators, which compute the log's numbers from sums over tokens.

The sums of all micro-batches and ranks are added up before a number is computed.

    MEAN                sum x / n                                   a boolean x gives a share
    MEAN_WEIGHT         1 + sum (w - 1) / n                         distinguishes .99999 from 1 in float32
    RATIO               sum x / sum y
    EFFECTIVE_SHARE     (sum w)^2 / (n sum w^2)                     computed from sum (w - 1), sum (w - 1)^2 and n

Here n is the number of tokens, x and y are quantities of a token, and w is its weight. If there are no tokens, the
number is NaN.
"""

import math
from collections.abc import Callable
from typing import NamedTuple


class Estimator(NamedTuple):
    """Computes a number of the log from sums over tokens.

    `sums` is how many sums it needs. `finish` returns the number, given the totals of the sums.
    """

    sums: int
    finish: Callable[..., float]


def quotient(total: float, count: float) -> float:
    """Return `total / count`, or NaN if `count` is 0."""
    return total / count if count else math.nan


def _mean_weight(total: float, count: float) -> float:
    return 1 + quotient(total, count)


def _effective_share(first: float, second: float, count: float) -> float:
    mean = 1 + quotient(first, count)
    square = 1 + 2 * quotient(first, count) + quotient(second, count)
    return quotient(mean * mean, square)


MEAN = Estimator(2, quotient)
MEAN_WEIGHT = Estimator(2, _mean_weight)
RATIO = Estimator(2, quotient)
EFFECTIVE_SHARE = Estimator(3, _effective_share)
