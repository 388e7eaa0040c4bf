"""Checks that the policy that samples is the policy that is scored.

A token x is drawn from the policy p at its place. The mean of its surprisal -ln p(x) is then the entropy H of p:

    sampled_as_scored = mean over tokens of d,   d = -ln p(x) - H        0 if x was drawn from p

The values of d of a completion are uncorrelated, because each has a mean of 0 whatever came before. So the variance
of their sum is the sum of d^2. A nearly certain policy may have drawn none of its rare tokens, and every d is then
small and below 0. So six rare tokens are added to the variance, with the surprisal ln(V n) of a token that is drawn
once in n tokens from V:

    error = sqrt(sum of d^2 + 6 ln(V n)^2) / n
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Shaped
from torch import Tensor

from steer_trl.support.precision import to_double

RARE = 6
"""The number of rare tokens that a sample may lack. With five errors, this covers 12 of them."""


class Gap(NamedTuple):
    """The mean difference of surprisal and entropy, and its standard error, both in nats per token."""

    mean: float
    error: float


def sum_gaps(
    logps: Float[Tensor, "B T"], entropies: Float[Tensor, "B T"], mask: Shaped[Tensor, "B T"]
) -> Float64[Tensor, "3"]:
    """Return the sum of d, the sum of d^2 and the number of tokens, over the finite values where `mask` is true."""
    differences = -to_double(logps) - to_double(entropies)
    valid = mask.bool().to(differences.device) & differences.isfinite()
    differences = torch.where(valid, differences, 0.0)
    return torch.stack([differences.sum(), differences.square().sum(), to_double(valid.sum())])


def estimate_gap(total: float, squares: float, count: float, vocabulary_size: int) -> Gap | None:
    """Return the gap from the sums over all tokens, or `None` if there are no tokens."""
    if not count:
        return None
    rare = RARE * math.log(vocabulary_size * count) ** 2
    return Gap(total / count, math.sqrt(squares + rare) / count)
