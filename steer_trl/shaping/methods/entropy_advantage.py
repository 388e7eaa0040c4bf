"""The entropy advantage, arXiv 2506.14758: a bonus for uncertain tokens, in correct and incorrect answers.

    A_hat_it = A_i + min(alpha H_it, |A_i| / kappa)

H is the entropy of the current policy, and no gradient flows through it. The bonus therefore moves the policy towards
the sampled token, not towards more entropy. With kappa = 2, an advantage never changes its sign, and A = 0 stays 0.
The authors use alpha = 0.4 for GRPO and 0.1 for PPO, and train with clip-higher. Their code was not found. Use the
entropy advantage to reward reasoning steps at forking tokens. Unlike the entropy loss, it needs no gradient through
the distribution.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import TokenBatch

KAPPA = 2.0


@dataclass
class EntropyAdvantageOptions:
    """Options of `"entropy_advantage"`."""

    alpha: Annotated[float, Setting("Bonus per nat of entropy; 0 is GRPO.", "[0, inf)", neutral=0)] = 0.4


class EntropyAdvantage(Shaper[ShapingConfig]):
    """The entropy advantage, which adds a bonus that grows with the entropy of each token."""

    options_class = EntropyAdvantageOptions
    options: EntropyAdvantageOptions
    paper = PAPERS["2506.14758"]

    def bonus(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return the bonus min(alpha H, |A| / kappa); 0 where H is not finite."""
        entropies = batch.entropies.float()
        bonus = self.options.alpha * torch.where(entropies.isfinite(), entropies, 0.0)
        return torch.minimum(bonus, batch.advantages.abs() / KAPPA)
