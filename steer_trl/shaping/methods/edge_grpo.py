"""EDGE-GRPO, arXiv 2507.21848: confident answers are rewarded more if correct and blamed more if incorrect.

    A_hat_i = A_i / Hr_i,   Hr_i = Hm_i / mean over the group of Hm,   Hm_i = mean_t H_it

H is the entropy under the policy that generated the rollout. The authors' code averages the current entropies, over
padding too, and lets the loss's gradient flow through them. Their guided error correction changes the data. None
of this is implemented here. Choose it to distinguish completions of a group that got the same reward.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout


class EdgeGrpo(Shaper[ShapingConfig]):
    """Advantages divided by relative entropies."""

    paper = PAPERS["2507.21848"]
    reads = ("rewards", "entropies")
    per_token = False

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return 1 / Hr, with Hr the entropy of a completion relative to its group.

        The factor is 1 if Hr is 0 or undefined. A completion without a reward has no Hr.
        """
        entropy = rollout.mean_of_scored(rollout.entropies).view(-1, rollout.num_generations)
        relative = (entropy / entropy.nanmean(1, keepdim=True)).flatten()
        relative = torch.where(relative > 0, relative, 1.0)
        # The division is in double precision, so that the product A / Hr is rounded once.
        return 1 / relative.double()
