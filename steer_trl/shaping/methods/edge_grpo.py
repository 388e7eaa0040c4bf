"""EDGE-GRPO, arXiv 2507.21848: confident answers are rewarded more if correct and blamed more if incorrect.

    A_hat_i = A_i / Hr_i,   Hr_i = Hm_i / mean over the group of Hm,   Hm_i = mean_t H_it

H is the entropy under the policy that generated the rollout. The authors' code instead averages the entropies of the
current policy, includes padding, and lets the loss's gradient flow through them. Their guided error correction changes
the training data. Neither is implemented here. Use EDGE-GRPO to distinguish completions that got the same reward
within a group.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.support.precision import to_double


class EdgeGrpo(Shaper[ShapingConfig]):
    """EDGE-GRPO, which divides each advantage by the relative entropy of its completion."""

    paper = PAPERS["2507.21848"]
    reads = ("rewards", "entropies")
    distinguishes_tokens = False

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return 1 / Hr, where Hr is the entropy of a completion relative to its group.

        The factor is 1 if Hr is 0 or undefined. Hr is undefined for a completion without a reward.
        """
        entropy = rollout.mean_of_scored(rollout.entropies).view(-1, rollout.num_generations)
        relative = (entropy / entropy.nanmean(1, keepdim=True)).flatten()
        relative = torch.where(relative > 0, relative, 1.0)
        # The division is in double precision, so that the product A / Hr is rounded once. Apple's devices have none.
        return 1 / (relative if relative.device.type == "mps" else to_double(relative))
