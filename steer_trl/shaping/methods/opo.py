"""OPO, arXiv 2505.23585: the reward baseline that minimises the variance of the gradient.

It assumes that the squared gradient of a completion grows with the completion's length.

    A_hat_i = R_i - b,   b = sum_i L_i R_i / sum_i L_i   over the group, without division by a standard deviation

R_i is the reward of a completion, and L_i is the number of its generated tokens, truncated or not. The method assumes
exact on-policy training with one optimizer step per rollout, and warns if there are several. Use OPO for long
completions of very different lengths. With equal lengths, the baseline is the mean reward. Rewards of 1 and -1 give
advantages twice as large as rewards of 1 and 0.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.needs import OWN_OR_UNSCALED_ADVANTAGES
from steer_trl.options.run import SamplingSettings
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout


class Opo(Shaper[SamplingSettings]):
    """OPO, which replaces the advantages with the reward minus a length-weighted baseline."""

    paper = PAPERS["2505.23585"]
    reads = ("rewards",)
    distinguishes_tokens = False
    needs = OWN_OR_UNSCALED_ADVANTAGES

    @classmethod
    def remarks(cls, args: SamplingSettings) -> list[str]:
        """Return warnings about settings that make some updates off-policy."""
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
        weighted = (lengths * rewards.nan_to_num(0.0)).sum(1, keepdim=True)
        baseline = weighted / lengths.sum(1, keepdim=True).clamp(min=1)
        return (rewards - baseline).nan_to_num(0.0).flatten()
