"""OPO, arXiv 2505.23585: the baseline that minimises the gradient's variance, under its assumption that a completion's
squared gradient grows with its length.

    A_hat_i = R_i - b,   b = sum_i L_i R_i / sum_i L_i   over the group; no division by a deviation

L_i counts the generated tokens of a completion, truncated or not. The method assumes exact on-policy training with one
optimizer step per rollout, and warns if there are several. Choose it for long completions of very different lengths;
with equal lengths it is the mean baseline. Rewards of 1 and -1 give twice the advantages of 1 and 0.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.needs import OWN_OR_UNSCALED_ADVANTAGES
from steer_trl.options.run import SamplingOptions
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout


class Opo(Shaper[SamplingOptions]):
    """OPO's advantages."""

    paper = PAPERS["2505.23585"]
    reads = ("rewards",)
    per_token = False
    needs = OWN_OR_UNSCALED_ADVANTAGES

    @classmethod
    def remarks(cls, args: SamplingOptions) -> list[str]:
        """Return warnings about settings with which some updates are not on-policy."""
        remarks = []
        steps = args.steps_per_rollout
        if steps > 1:
            remarks.append(
                f"it assumes on-policy training, and here a rollout lasts {steps:g} optimizer steps. For one, set "
                "steps_per_generation to gradient_accumulation_steps and num_iterations to 1."
            )
        if args.dynamic_sampling == "resample" and args.dynamic_sampling_surplus == "keep":
            remarks.append(
                "it assumes on-policy training, and groups that are left over are trained on a rollout later. Set "
                "dynamic_sampling_surplus to 'drop' for none."
            )
        return remarks

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the reward minus the baseline; 0 where the reward is missing."""
        rewards = rollout.rewards.view(-1, rollout.num_generations)
        lengths = torch.where(rewards.isnan(), 0.0, rollout.lengths.view_as(rewards))
        baseline = (lengths * rewards.nan_to_num(0.0)).sum(1, keepdim=True) / lengths.sum(1, keepdim=True).clamp(min=1)
        return (rewards - baseline).nan_to_num(0.0).flatten()
