"""RSI-S, arXiv 2606.31575: training on tokens that are neither too expected nor too surprising for where they stand.

    A_hat_it = A_i where low <= RSI_it <= high, 0 elsewhere;   RSI_it = -ln pi_it / H_it

The relative surprisal index RSI is 1 for a token as surprising as the policy expects one to be there. It is near 0
where the policy was sure and wrote what it was sure of, and large in the tail, also where the policy is nearly sure:
neither entropy nor probability alone distinguishes these. Both are the current policy's; masked tokens stay in the
loss's denominator. Only the abstract was read: interval, policy and denominator could not be verified, 0.1 and 3 are
those of a third party. It assumes that TRL's entropy is that of the distribution the token was drawn from: no top-p
and no top-k. Choose it where a few very unlikely tokens spoil the updates.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig, option
from steer_trl.options.conflicts import token_ratio_conflicts
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import TokenBatch


@dataclass
class RsiOptions(ShapingConfig):
    """Settings of `"rsi"`."""

    rsi_low: float = option(0.1, "Tokens whose surprisal is below this times the entropy are dropped.", "[0, 1]")
    rsi_high: float = option(
        3.0, "Tokens whose surprisal is above this times the entropy are dropped; inf for none.", "[1, inf]"
    )


class Rsi(Shaper[RsiOptions]):
    """Weights of 0 on tokens outside of an interval of relative surprisal."""

    options = RsiOptions
    paper = Paper(
        "Which Tokens Matter? Adaptive Token Selection for RLVR with the Relative Surprisal Index",
        "Outongyi Lv and Yanzhao Zheng and Yuanwei Zhang and Zhenghao Huang and Xingjun Wang and Baohua Dong and "
        "Hangcheng Zhu and Yingda Chen",
        2026,
        "2606.31575",
    )

    @classmethod
    def conflicts(cls, args: RsiOptions) -> list[str]:
        """Refuse ratios of whole completions."""
        return token_ratio_conflicts("rsi", args)

    @property
    def active(self) -> bool:
        """False where the interval is everything."""
        return self.args.rsi_low > 0 or self.args.rsi_high < torch.inf

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 outside of the interval, 1 in it and where a number is not finite."""
        return (~self._dropped(batch)).float()

    def _dropped(self, batch: TokenBatch) -> Bool[Tensor, "B T"]:
        surprisal, entropy = -batch.logps.float().clamp(max=0), batch.entropies.float()
        index = torch.where(entropy > 0, surprisal / entropy, 0.0)  # of a certain token, 0: its limit
        outside = (index < self.args.rsi_low) | (index > self.args.rsi_high)
        return outside & surprisal.isfinite() & entropy.isfinite()
