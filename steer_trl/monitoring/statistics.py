"""Represents numbers of the log by sums over tokens.

`estimators.py` computes the numbers from the totals of these sums.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float32, Shaped
from torch import Tensor

from steer_trl.monitoring.estimators import MEAN, RATIO, Estimator


class Statistic(NamedTuple):
    """A number of the log, represented by sums over tokens.

    The `sums` are scalars (`[]`) that add up over micro-batches and ranks. The `estimator` computes the number from
    their totals.
    """

    sums: tuple[Tensor, ...]
    estimator: Estimator

    @property
    def finish(self) -> Callable[..., float]:
        """The function that computes the number from the totals of `sums`.

        It returns NaN if there are no tokens.
        """
        return self.estimator.finish


def total(values: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Float32[Tensor, ""]:
    """Sum `values` over the tokens for which `where` is true, in float32.

    Values of other tokens may be NaN.
    """
    return torch.where(where, values, 0).sum(dtype=torch.float32)


def mean(values: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"], count: Tensor | None = None) -> Statistic:
    """Average `values` over the tokens for which `where` is true. The mean of a boolean tensor is a share.

    `count` is the number of these tokens, if the caller has already computed it.
    """
    return Statistic((total(values, where), where.sum(dtype=torch.float32) if count is None else count), MEAN)


def ratio(values: Shaped[Tensor, "B T"], divisors: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Statistic:
    """Divide the sum of `values` by the sum of `divisors`, both over the tokens for which `where` is true."""
    return Statistic((total(values, where), total(divisors, where)), RATIO)
