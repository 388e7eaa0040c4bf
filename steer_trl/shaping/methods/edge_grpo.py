"""EDGE-GRPO, arXiv 2507.21848: a confident correct answer learns more, a confident incorrect one is blamed more.

    A_hat_i = A_i / Hr_i,   Hr_i = Hm_i / mean over the group of Hm,   Hm_i = mean_t H_it

H of the policy that wrote the rollout. The authors' code takes the current entropies, over the padding too, without
detaching them, so that their gradient leaks into the entropy; a weight on the advantage cannot express that leak.
Their clamp of Hr to [0.1, 10] is commented out: `edge_grpo_clamp` has it. Their guided error correction changes the
data and is not here. Choose it to distinguish completions of a group that were equally rewarded.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig, option
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.validation import is_number


@dataclass
class EdgeGrpoOptions(ShapingConfig):
    """Settings of `"edge_grpo"`."""

    edge_grpo_clamp: list[float] | None = option(
        None, "Bounds of a completion's relative entropy, two positive numbers such as 0.1 10; 1 1 is GRPO."
    )


class EdgeGrpo(Shaper[EdgeGrpoOptions]):
    """Advantages over relative entropies."""

    options = EdgeGrpoOptions
    paper = Paper(
        "EDGE-GRPO: Entropy-Driven GRPO with Guided Error Correction for Advantage Diversity",
        "Xingjian Zhang and Siwei Wen and Wenjun Wu and Lei Huang",
        2025,
        "2507.21848",
    )
    reads = ("rewards", "entropies")
    by_group = True
    per_token = False

    @classmethod
    def complaints(cls, args: EdgeGrpoOptions) -> list[str]:
        """Check the clamp."""
        clamp = args.edge_grpo_clamp
        is_pair = isinstance(clamp, (list, tuple)) and len(clamp) == 2 and all(map(is_number, clamp))
        if clamp is None or (is_pair and 0 < clamp[0] <= clamp[1] < float("inf")):
            return []
        return [f"edge_grpo_clamp must be two positive numbers [low, high], got {clamp!r}."]

    @property
    def active(self) -> bool:
        """False where the clamp leaves 1 only."""
        return self.args.edge_grpo_clamp is None or tuple(self.args.edge_grpo_clamp) != (1, 1)

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return 1 / Hr; 1 where there is no entropy to speak of, or no reward."""
        entropy = rollout.mean_of_scored(rollout.entropies).view(-1, rollout.num_generations)
        relative = (entropy / entropy.nanmean(1, keepdim=True)).flatten()
        relative = torch.where(relative > 0, relative, 1.0)
        if self.args.edge_grpo_clamp is not None:
            relative = relative.clamp(*self.args.edge_grpo_clamp)
        return 1 / relative.double()  # so that the product is A / Hr, rounded once
