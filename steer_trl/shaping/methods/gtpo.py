r"""GTPO, arXiv 2508.04349 (Tan and Pan): credit goes to the uncertain tokens of right answers, blame to the certain
tokens of wrong ones.

    right:  r_it =  a1 R_i + a2 d_t H_it / sum_{k right, alive at t} H_kt          d_t of them are alive at t
    wrong:  r_jt = -a1     - a2 h_t (1 / H_jt) / sum_{k wrong, alive at t} 1 / H_kt

H of the policy that wrote the rollout; A_hat = (r - mean) / (std + 1e-8) over all tokens of the group ("joint"). Two
replications standardise right and wrong tokens apart ("separate"): there, with rewards 0 and 1, a1 and a2 cancel, the
mean over right tokens is 0, and half of the right tokens are punished. `gtpo_version="v1"` shapes right answers only.
No code of the authors was found; a1 = 1, a2 = 0.1 are the replications'. Choose it where whole groups are right.
"""

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.conflicts import advantage_conflicts, sign_conflicts
from steer_trl.shaping.groups import is_right, relative, standardized
from steer_trl.shaping.options import ShapingConfig, option
from steer_trl.validation import in_interval, one_of

logger = logging.getLogger(__name__)

EPS = 1e-8
GTPO_PAPER = Paper(
    "GTPO and GRPO-S: Token and Sequence-Level Reward Shaping with Policy Entropy",
    "Hongze Tan and Jianfei Pan",
    2025,
    "2508.04349",
)


@dataclass
class GtpoOptions(ShapingConfig):
    """Settings of `"gtpo"` and of `"grpo_s"`."""

    gtpo_reward_weight: float = option(1.0, "a1: weight of the reward, above 0. For grpo_s, too.")
    gtpo_entropy_weight: float = option(0.1, "a2: weight of the entropy's share, at least 0. For grpo_s, too.")
    gtpo_normalize: str = option(
        "joint", "z-scores over all tokens of a group ('joint'), or right and wrong 'separate'."
    )
    gtpo_version: str = option("v2", "'v2', or 'v1': wrong answers keep their reward.")


class Gtpo(Shaper[GtpoOptions]):
    """GTPO's token advantages."""

    paper = GTPO_PAPER
    stage = "advantage"
    reads = ("rewards", "entropies")
    by_group = True

    def __init__(self, args: GtpoOptions) -> None:
        super().__init__(args)
        if args.gtpo_normalize == "separate":
            logger.warning(
                "gtpo_normalize='separate': the right tokens' mean advantage is 0, about half of them are punished."
            )

    @classmethod
    def complaints(cls, args: GtpoOptions) -> list[str]:
        """Check the settings."""
        return [
            *in_interval("gtpo_reward_weight", args.gtpo_reward_weight, "(0, inf)", "it weights the outcome"),
            *in_interval("gtpo_entropy_weight", args.gtpo_entropy_weight, "[0, inf)", "it weights the entropies"),
            *one_of("gtpo_normalize", args.gtpo_normalize, ("joint", "separate")),
            *one_of("gtpo_version", args.gtpo_version, ("v1", "v2")),
        ]

    @classmethod
    def conflicts(cls, args: GtpoOptions) -> list[str]:
        """Refuse what would be ignored."""
        return advantage_conflicts("gtpo", args) + sign_conflicts("gtpo", args)

    def advantages(self, rollout: Rollout) -> Tensor:
        """Return advantages `[N, T]`, 0 where the reward is missing."""
        right = is_right(rollout, self.args).unsqueeze(1)
        counted = rollout.responses.bool() & ~rollout.rewards.isnan().unsqueeze(1)
        rewards = torch.where(counted, self.shaped_rewards(rollout), torch.nan)
        if self.args.gtpo_normalize == "joint":
            return standardized(rewards, rollout.num_generations, EPS)
        apart = [torch.where(right == side, rewards, torch.nan) for side in (True, False)]
        return sum(standardized(side, rollout.num_generations, EPS) for side in apart)

    def shaped_rewards(self, rollout: Rollout) -> Tensor:
        """Return r `[N, T]`; what it is off the responses does not matter.

        A token without a finite entropy is not counted, and gets what one at the mean gets.
        """
        known = rollout.entropies.isfinite()
        entropies = torch.where(known, rollout.entropies.float(), 1.0)
        right = is_right(rollout, self.args).unsqueeze(1)
        alive = rollout.responses.bool() & known & ~rollout.rewards.isnan().unsqueeze(1)
        rewards = rollout.rewards.nan_to_num(0.0).unsqueeze(1)
        a1, a2, size = self.args.gtpo_reward_weight, self.args.gtpo_entropy_weight, rollout.num_generations
        uncertain = torch.where(known, relative(entropies, alive & right, size, EPS), 1.0)
        certain = torch.where(known, relative(1 / (entropies + EPS), alive & ~right, size, EPS), 1.0)
        credit, blame = a1 * rewards + a2 * uncertain, -a1 - a2 * certain
        return torch.where(right, credit, rewards if self.args.gtpo_version == "v1" else blame)
