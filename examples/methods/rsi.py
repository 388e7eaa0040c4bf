"""RSI-S, arXiv 2606.31575: training on tokens that are neither too expected nor too surprising for where they stand.

    A_hat_it = A_i where low <= RSI_it <= high, 0 elsewhere;   RSI_it = -ln pi_it / H_it

The relative surprisal index RSI is 1 for a token as surprising as the policy expects one to be there. It is near 0
where the policy was sure and wrote what it was sure of, and large in the tail, also where the policy is nearly sure:
neither entropy nor probability alone distinguishes these. Both are the current policy's; masked tokens stay in the
loss's denominator. Only the abstract was read: interval, policy and denominator could not be verified, 0.1 and 3 are
those of a third party. It assumes that TRL's entropy is that of the distribution the token was drawn from: no top-p
and no top-k. Use RSI-S if a few very unlikely tokens spoil the updates.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig
from steer_trl.options.needs import TOKEN_RATIOS
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.validation import check_interval


@dataclass
class Settings:
    """`shaping_options`: the interval of the index; 0 and inf are everything."""

    low: float = 0.1
    high: float = 3.0


class Rsi(Shaper[ShapingConfig]):
    """Weights of 0 on tokens outside of an interval of relative surprisal."""

    paper = Paper(
        "Which Tokens Matter? Adaptive Token Selection for RLVR with the Relative Surprisal Index",
        "Outongyi Lv and Yanzhao Zheng and Yuanwei Zhang and Zhenghao Huang and Xingjun Wang and Baohua Dong and "
        "Hangcheng Zhu and Yingda Chen",
        2026,
        "2606.31575",
    )
    needs = TOKEN_RATIOS

    def __init__(self, args: ShapingConfig) -> None:
        super().__init__(args)
        self.own = Settings(**args.shaping_options or {})

    @classmethod
    def complaints(cls, args: ShapingConfig) -> list[str]:
        """Refuse ends that leave 1 out."""
        own = Settings(**args.shaping_options or {})
        return check_interval("low", own.low, "[0, 1]") + check_interval("high", own.high, "[1, inf]")

    @property
    def active(self) -> bool:
        """False where the interval is everything."""
        return self.own.low > 0 or self.own.high < torch.inf

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 outside of the interval, 1 in it and where a number is not finite."""
        return (~self._dropped(batch)).float()

    def _dropped(self, batch: TokenBatch) -> Bool[Tensor, "B T"]:
        surprisal, entropy = -batch.logps.float().clamp(max=0), batch.entropies.float()
        index = torch.where(entropy > 0, surprisal / entropy, 0.0)  # of a certain token, 0: its limit
        outside = (index < self.own.low) | (index > self.own.high)
        return outside & surprisal.isfinite() & entropy.isfinite()
