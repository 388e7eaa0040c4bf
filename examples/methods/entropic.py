"""EntroPIC, arXiv 2511.15248: balances bad completions, which raise the entropy, and good ones, which lower it.

    A_hat = (1 - s) A for A > 0,   (1 + s) A for A < 0

A is the advantage of the completion. A strength s > 0 raises the entropy, and s < 0 lowers it. At s = 1 only bad
completions are trained on, and at s = -1 only good ones. Entrocraft (arXiv 2604.26326) switches between these two,
with half of these weights. The authors move s with a controller of their own; here `hold_entropy` moves it, or it
stays constant. They also weight only tokens that the policy was nearly sure of. Their threshold could not be verified,
so all tokens of a completion have the same weight here. Use EntroPIC if weights that differ between tokens are too
noisy. Watch the reward: with s near 1 the good completions hardly count, and with s near -1 the bad ones hardly count.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping.base import Control, Paper, Shaper
from steer_trl.shaping.batch import TokenBatch


@dataclass
class EntropicOptions:
    """The strength s."""

    strength: Annotated[float, Setting("s; hold_entropy moves it.", "[-1, 1]", needs={"hold_entropy": None})] = 0.2


class Entropic(Shaper[ShapingConfig]):
    """Weights completions by the sign of the advantage. The strength is the distance of the weights from 1."""

    paper = Paper(
        "EntroPIC: Towards Stable Long-Term Training of LLMs via Entropy Stabilization with Proportional-Integral "
        "Control",
        "Kai Yang and Xin Xu and Yangkun Chen and Weijie Liu and Jiafei Lyu and Zichuan Lin and Deheng Ye and "
        "Saiyong Yang",
        2025,
        "2511.15248",
    )
    distinguishes_tokens = False
    options_class = EntropicOptions
    options: EntropicOptions
    control = Control(max_strength=1.0, option="strength")

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 1 - s for positive advantages and 1 + s for negative ones; 1 if the log-probability is not finite."""
        return torch.where(batch.logps.isfinite(), 1 - self.strength * batch.advantages.sign(), 1.0)
