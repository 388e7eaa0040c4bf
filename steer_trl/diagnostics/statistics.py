"""A number of the log, as sums over tokens; what is made of their totals is in `estimators.py`."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float32, Shaped
from torch import Tensor

from steer_trl.diagnostics.estimators import MEAN, RATIO, Estimator


class Statistic(NamedTuple):
    """A number of the log that is still being added up: its `sums` (each `[]`) add up over micro-batches and ranks."""

    sums: tuple[Tensor, ...]
    estimator: Estimator

    @property
    def finish(self) -> Callable[..., float]:
        """The number, of the totals of `sums`; NaN where there was nothing to measure."""
        return self.estimator.finish


def total(values: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Float32[Tensor, ""]:
    """Sum of the `values` where `where` holds, float32; what is elsewhere may be anything, NaN too."""
    return torch.where(where, values, 0).sum(dtype=torch.float32)


def mean(values: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"], count: Tensor | None = None) -> Statistic:
    """Mean of the `values` over the `count` tokens `where`; a share, of a boolean tensor."""
    return Statistic((total(values, where), where.sum(dtype=torch.float32) if count is None else count), MEAN)


def ratio(values: Shaped[Tensor, "B T"], divisors: Shaped[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Statistic:
    """Sum of the `values` over that of the `divisors`, both over the tokens `where`."""
    return Statistic((total(values, where), total(divisors, where)), RATIO)
