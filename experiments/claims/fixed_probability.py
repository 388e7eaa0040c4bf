"""STARE's ablation: a token is surprising where its probability is below 0.1; no quantile is taken."""

import math

import torch

from steer_trl.functional.order_statistics import Reduce
from steer_trl.functional.stare import SurprisalLimits
from steer_trl.shaping import TokenBatch
from steer_trl.shaping.methods.stare import Stare


class FixedProbability(Stare):
    """STARE with the same limit for all sets."""

    def measure(self, batch: TokenBatch, reduce: Reduce) -> SurprisalLimits:
        """Return the surprisal of that probability, for both signs of the advantage."""
        limit = torch.tensor(-math.log(0.1))
        return SurprisalLimits(limit, limit)
