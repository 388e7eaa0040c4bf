"""A control that assigns STARE's weights to random tokens whose advantage has the same sign.

    advantage_shaping: experiments.dial.shuffled:ShuffledStare

As many tokens get each weight as with STARE, in correct and in incorrect completions. Only the choice of the tokens is
different.
"""

from typing import Any

from torch import Tensor

from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.methods.stare import Stare


class ShuffledStare(Stare):
    """STARE with its weights permuted among the tokens of a micro-batch with the same sign of the advantage."""

    random = True

    def weights(self, batch: TokenBatch, measure: Any) -> Tensor:
        """Return STARE's weights `[B, T]`, permuted among tokens whose advantages have the same sign."""
        assert batch.draws is not None
        weights = super().weights(batch, measure).clone()
        advantages = batch.advantages.expand_as(weights)
        for sign in (advantages > 0, advantages < 0):
            chosen = batch.mask.bool() & sign
            weights[chosen] = weights[chosen][batch.draws[chosen].argsort()]
        return weights
