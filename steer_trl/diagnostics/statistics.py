"""A number of the log, as sums over tokens. These add up over micro-batches and ranks; a mean of means does not.

mean                 sum x / n
ratio                sum x / sum y
correlation          Pearson's, from n, sum x, sum y, sum x^2, sum y^2, sum x y
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float32, Shaped
from torch import Tensor


class Statistic(NamedTuple):
    """A number of the log that is still being added up.

    Attributes:
        sums (`tuple` of `torch.Tensor` of shape `[]`): what adds up over micro-batches and ranks.
        finish (`callable`): the number, of the totals of `sums`; NaN where there was nothing to measure.
    """

    sums: tuple[Tensor, ...]
    finish: Callable[..., float]


def total(values: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Float32[Tensor, ""]:
    """Sum of the `values` where `where` holds, float32; what is elsewhere may be anything, NaN too."""
    return torch.where(where, values, 0).sum(dtype=torch.float32)


def mean(values: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"], count: Tensor | None = None) -> Statistic:
    """Mean of the `values` over the tokens `where`; `count` is their number, if it is known already.

    A boolean tensor gives a share.
    """
    return Statistic((total(values, where), where.sum(dtype=torch.float32) if count is None else count), quotient)


def ratio(values: Shaped[Tensor, "B T"], divisors: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Statistic:
    """Sum of the `values` over that of the `divisors`, both over the tokens `where`."""
    return Statistic((total(values, where), total(divisors, where)), quotient)


def correlation(x: Shaped[Tensor, "B T"], y: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Statistic:
    """Pearson's correlation of `x` and `y` over the tokens `where`; NaN where one of them is constant."""
    sums = (where, x, y, x * x, y * y, x * y)
    return Statistic(tuple(total(values, where) for values in sums), _pearson)


def quotient(total: float, count: float) -> float:
    """`total / count`, NaN for a count of 0."""
    return total / count if count else math.nan


def _pearson(n: float, x: float, y: float, xx: float, yy: float, xy: float) -> Any:
    spread = (n * xx - x * x) * (n * yy - y * y)
    return (n * xy - x * y) / math.sqrt(spread) if spread > 0 else math.nan
