"""EntroPIC, arXiv 2511.15248: bad completions, which raise the entropy, against good ones, which lower it.

    A_hat = (1 - s) A for A > 0,   (1 + s) A for A < 0

s > 0 keeps entropy and s < 0 spends it; at s = 1 only bad completions are trained on, at s = -1 only good ones, which
is the switch of Entrocraft (2604.26326), at twice the weight. The authors move s by a controller of their own; here
`hold_entropy` moves it, or it stays. They also weight only tokens that the policy was nearly sure of; their threshold
could not be verified, and all tokens take part here. All tokens of a completion have the same weight. Use EntroPIC
if weights that differ between tokens are too noisy. Watch the reward: with s near 1 the good completions hardly count,
and with s near -1 the bad ones.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import Control, Paper, Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.validation import check_interval


@dataclass
class Settings:
    """`shaping_options`: s, which `hold_entropy` moves: leave it unset there."""

    strength: float = 0.2


class Entropic(Shaper[ShapingConfig]):
    """Weights by the sign of the advantage; its strength is how far they are from 1."""

    paper = Paper(
        "EntroPIC: Towards Stable Long-Term Training of LLMs via Entropy Stabilization with Proportional-Integral "
        "Control",
        "Kai Yang and Xin Xu and Yangkun Chen and Weijie Liu and Jiafei Lyu and Zichuan Lin and Deheng Ye and "
        "Saiyong Yang",
        2025,
        "2511.15248",
    )
    per_token = False
    control = Control(max_strength=1.0)

    def __init__(self, args: ShapingConfig) -> None:
        super().__init__(args)
        self.strength = Settings(**args.shaping_options or {}).strength

    @classmethod
    def complaints(cls, args: ShapingConfig) -> list[str]:
        """Refuse weights below 0, and a strength of one's own where it is moved."""
        given = args.shaping_options or {}
        if args.hold_entropy is not None and "strength" in given:
            return ["strength cannot be combined with hold_entropy, which sets it. Leave it unset."]
        return check_interval("strength", Settings(**given).strength, "[-1, 1]")

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 1 - s on positive advantages, 1 + s on negative ones, 1 where the log-probability is not finite."""
        return torch.where(batch.logps.isfinite(), 1 - self.strength * batch.advantages.sign(), 1.0)
