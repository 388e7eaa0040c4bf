"""A control: STARE's weights, dealt to other tokens of the same sign at random.

    advantage_shaping: experiments.tasks.shuffled:ShuffledStare

As many tokens have each weight as with STARE, in correct and in incorrect completions. What is lost is which ones.
"""

from typing import Any

from torch import Tensor

from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.methods.stare import Stare


class ShuffledStare(Stare):
    """STARE with the weights of a micro-batch's tokens permuted within each sign of the advantage."""

    random = True

    def weights(self, batch: TokenBatch, measure: Any) -> Tensor:
        """Return a permutation of STARE's weights `[B, T]`, that of correct and of incorrect tokens apart."""
        assert batch.draws is not None
        weights = super().weights(batch, measure).clone()
        advantages = batch.advantages.expand_as(weights)
        for sign in (advantages > 0, advantages < 0):
            chosen = batch.mask.bool() & sign
            weights[chosen] = weights[chosen][batch.draws[chosen].argsort()]
        return weights
