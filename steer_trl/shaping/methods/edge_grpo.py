"""EDGE-GRPO, arXiv 2507.21848: a confident correct answer learns more, a confident incorrect one is blamed more.

    A_hat_i = A_i / Hr_i,   Hr_i = Hm_i / mean over the group of Hm,   Hm_i = mean_t H_it

H of the policy that wrote the rollout. The authors' code takes the current entropies, over the padding too, and lets
their gradient leak into the entropy; their guided error correction changes the data. Neither is here. Choose it to
distinguish completions of a group that were equally rewarded.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout


class EdgeGrpo(Shaper[ShapingConfig]):
    """Advantages over relative entropies."""

    paper = PAPERS["2507.21848"]
    reads = ("rewards", "entropies")
    per_token = False

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return 1 / Hr; 1 where there is no entropy to speak of, or no reward."""
        entropy = rollout.mean_of_scored(rollout.entropies).view(-1, rollout.num_generations)
        relative = (entropy / entropy.nanmean(1, keepdim=True)).flatten()
        relative = torch.where(relative > 0, relative, 1.0)
        # In double precision, so that the product A / Hr is rounded once.
        return 1 / relative.double()
