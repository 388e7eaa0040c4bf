"""RSI-S, arXiv 2606.31575: trains only on tokens that are neither too expected nor too surprising at their position.

    A_hat_it = A_i if low <= RSI_it <= high, otherwise 0;   RSI_it = -ln pi_it / H_it

A_i is the advantage of completion i, pi_it is the probability of its token t, and H_it is the entropy at its position,
both of the current policy. The relative surprisal index RSI is 1 for a token that is as surprising as the policy
expects of a token there. It is near 0 if the policy was sure and the token is the one it was sure of. It is large for
tokens in the tail of the distribution, even if the policy is nearly sure. Neither entropy nor probability alone
distinguishes these cases. Dropped tokens stay in the loss's denominator. We have read only the abstract, so the
interval, the policy and the denominator could not be verified; 0.1 and 3 are taken from a third party. The method
assumes that tokens are drawn from the same distribution whose entropy TRL computes, so without top-p and top-k. Use
RSI-S if a few very unlikely tokens spoil the updates.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.options.needs import TOKEN_RATIOS
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import TokenBatch


@dataclass
class RsiOptions:
    """The bounds of the interval of RSI. With 0 and inf all tokens are trained on."""

    low: Annotated[float, Setting("Smallest RSI that is trained on.", "[0, 1]")] = 0.1
    high: Annotated[float, Setting("Largest RSI that is trained on.", "[1, inf]")] = 3.0


class Rsi(Shaper[ShapingConfig]):
    """Gives a weight of 0 to tokens outside an interval of relative surprisal."""

    paper = Paper(
        "Which Tokens Matter? Adaptive Token Selection for RLVR with the Relative Surprisal Index",
        "Outongyi Lv and Yanzhao Zheng and Yuanwei Zhang and Zhenghao Huang and Xingjun Wang and Baohua Dong and "
        "Hangcheng Zhu and Yingda Chen",
        2026,
        "2606.31575",
    )
    options_class = RsiOptions
    options: RsiOptions
    needs = TOKEN_RATIOS

    @property
    def active(self) -> bool:
        """False if the interval contains all tokens."""
        return self.options.low > 0 or self.options.high < torch.inf

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 for tokens outside the interval, 1 for tokens inside it or with a number that is not finite."""
        return (~self._dropped(batch)).float()

    def _dropped(self, batch: TokenBatch) -> Bool[Tensor, "B T"]:
        surprisal, entropy = -batch.logps.float().clamp(max=0), batch.entropies.float()
        index = torch.where(entropy > 0, surprisal / entropy, 0.0)  # an entropy of 0 gives 0, the limit
        outside = (index < self.options.low) | (index > self.options.high)
        return outside & surprisal.isfinite() & entropy.isfinite()
