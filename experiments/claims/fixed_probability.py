"""STARE's ablation in which a token is surprising if its probability is below 0.1, instead of by a quantile."""

import math

import torch

from steer_trl.shaping import TokenBatch
from steer_trl.shaping.methods.stare import Stare, SurprisalLimits
from steer_trl.shaping.order_statistics import Reduce


class FixedProbability(Stare):
    """STARE with one fixed limit for both signs of the advantage."""

    def measure(self, batch: TokenBatch, reduce: Reduce) -> SurprisalLimits:
        """Return the surprisal of a probability of 0.1 as the limit for both signs of the advantage."""
        limit = torch.tensor(-math.log(0.1))
        return SurprisalLimits(limit, limit)
