"""OPO, arXiv 2505.23585: the baseline that minimises the gradient's variance, under its assumption that a completion's
squared gradient grows with its length.

    A_hat_i = R_i - b,   b = sum_i L_i R_i / sum_i L_i   over the group; no division by a deviation

L_i counts the tokens that the policy wrote, truncated or not. It assumes exact on-policy training: one optimizer step
per rollout, and warns where there are several. Choose it for long completions of very different lengths; with equal
lengths it is the mean baseline. Rewards of 1 and -1 give twice the advantages of 1 and 0.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig
from steer_trl.options.needs import OWN_OR_UNSCALED_ADVANTAGES
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout


class Opo(Shaper[ShapingConfig]):
    """OPO's advantages."""

    paper = PAPERS["2505.23585"]
    reads = ("rewards",)
    by_group = True
    per_token = False
    on_policy = True
    needs = OWN_OR_UNSCALED_ADVANTAGES

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return R - b, 0 where the reward is missing."""
        rewards = rollout.rewards.view(-1, rollout.num_generations)
        lengths = torch.where(rewards.isnan(), 0.0, rollout.lengths.view_as(rewards))
        baseline = (lengths * rewards.nan_to_num(0.0)).sum(1, keepdim=True) / lengths.sum(1, keepdim=True).clamp(min=1)
        return (rewards - baseline).nan_to_num(0.0).flatten()
