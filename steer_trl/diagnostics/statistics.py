"""Represents numbers of the log as sums over tokens. `estimators.py` computes the numbers from their totals."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float32, Shaped
from torch import Tensor

from steer_trl.diagnostics.estimators import MEAN, RATIO, Estimator


class Statistic(NamedTuple):
    """A number of the log before the reduction: its `sums` (each `[]`) add up over micro-batches and ranks."""

    sums: tuple[Tensor, ...]
    estimator: Estimator

    @property
    def finish(self) -> Callable[..., float]:
        """The function that computes the number from the totals of `sums`; NaN without any token."""
        return self.estimator.finish


def total(values: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Float32[Tensor, ""]:
    """Sum the `values` over the tokens `where`, in float32. Values of other tokens are ignored, even NaN."""
    return torch.where(where, values, 0).sum(dtype=torch.float32)


def mean(values: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"], count: Tensor | None = None) -> Statistic:
    """Average the `values` over the `count` tokens `where`; the mean of a boolean tensor is a share."""
    return Statistic((total(values, where), where.sum(dtype=torch.float32) if count is None else count), MEAN)


def ratio(values: Shaped[Tensor, "B T"], divisors: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Statistic:
    """Divide the sum of the `values` by that of the `divisors`, both over the tokens `where`."""
    return Statistic((total(values, where), total(divisors, where)), RATIO)
