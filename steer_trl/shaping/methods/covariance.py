"""The covariance of advantage and log-probability, arXiv 2505.22617: what Clip-Cov and KL-Cov choose tokens by.

    cov_it = (A_it - mean A) (lp_it - mean lp)      means over the trained tokens of the optimizer step

A policy-gradient step lowers the entropy in proportion to it: tokens that are likely and good, or unlikely and bad.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from steer_trl.functional.order_statistics import Reduce
from steer_trl.shaping.base import PAPERS
from steer_trl.shaping.batch import TokenBatch

ENTROPY_MECHANISM = PAPERS["2505.22617"]


class Means(NamedTuple):
    """Over the trained tokens of an optimizer step, float64."""

    tokens: Tensor
    advantage: Tensor
    logp: Tensor


class CovarianceMeasure(NamedTuple):
    """What the tokens of an optimizer step are compared with, float64: their means, and what the chosen ones reach."""

    mean_advantage: Tensor
    mean_logp: Tensor
    threshold: Tensor


def means(batch: TokenBatch, reduce: Reduce) -> Means:
    """Return the number of tokens, mean A and mean lp over what `reduce` takes in."""
    valid = _valid(batch)
    # float64: the sums run over millions of tokens, and must not depend on how they are split.
    parts = [valid, *(torch.where(valid, x, 0.0) for x in (batch.advantages.expand_as(valid), batch.logps))]
    count, *sums = reduce(torch.stack([part.double().sum() for part in parts]), "sum")
    return Means(count, *(total / count.clamp(min=1) for total in sums))


def covariance(batch: TokenBatch, mean_advantage: Tensor, mean_logp: Tensor) -> Tensor:
    """Return cov `[B, T]`, float32; `-inf` off the mask and where the log-probability is not finite."""
    product = (batch.advantages.float() - mean_advantage) * (batch.logps.float() - mean_logp)
    return torch.where(_valid(batch), product, -torch.inf)


def count_of(fraction: float, total: float, most: int) -> int:
    """Return how many tokens the authors take: the floor of a share of all, at least one, at most `most`."""
    return min(max(math.floor(fraction * total + 1e-6), 1), most)


def _valid(batch: TokenBatch) -> Tensor:
    return batch.mask.bool() & batch.logps.isfinite()
