r"""GTPO, arXiv 2508.04349 (Tan and Pan): credit goes to the uncertain tokens of correct answers, blame to the certain
tokens of incorrect ones.

    correct:    r_it =  a1 R_i + a2 d_t H_it / sum_{k correct, alive at t} H_kt        d_t of them are alive at t
    incorrect:  r_jt = -a1     - a2 h_t (1 / H_jt) / sum_{k incorrect, alive at t} 1 / H_kt

H of the policy that wrote the rollout; A_hat = (r - mean) / (std + 1e-8) over all tokens of the group ("joint"). Two
replications standardise the tokens of correct and of incorrect answers apart ("separate"): there, with rewards 0 and
1, a1 and a2 cancel, the mean over the tokens of correct answers is 0, and half of them are punished.
`gtpo_version="v1"` shapes correct answers only. No code of the authors was found; a1 = 1, a2 = 0.1 are the
replications'. Choose it where whole groups are correct.
"""

import logging
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig, choice, option
from steer_trl.options.needs import OWN_ADVANTAGES, SIGNS
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import is_right, relative, standardized

logger = logging.getLogger(__name__)

EPS = 1e-8
GTPO_PAPER = Paper(
    "GTPO and GRPO-S: Token and Sequence-Level Reward Shaping with Policy Entropy",
    "Hongze Tan and Jianfei Pan",
    2025,
    "2508.04349",
)


@dataclass
class EntropyRewardOptions(ShapingConfig):
    """Settings of `"gtpo"` and of `"grpo_s"`."""

    gtpo_reward_weight: float = option(1.0, "a1: weight of the reward. For grpo_s, too.", "(0, inf)")
    gtpo_entropy_weight: float = option(0.1, "a2: weight of the entropy's share. For grpo_s, too.", "[0, inf)")


@dataclass
class GtpoOptions(EntropyRewardOptions):
    """Settings of `"gtpo"`, beside these."""

    gtpo_normalize: str = choice(
        "joint",
        ("joint", "separate"),
        "z-scores over all tokens of a group ('joint'), or those of correct and of incorrect completions 'separate'.",
    )
    gtpo_version: str = choice("v2", ("v1", "v2"), "'v2', or 'v1': incorrect completions keep their reward.")


class Gtpo(Shaper[GtpoOptions]):
    """GTPO's token advantages."""

    options = GtpoOptions
    paper = GTPO_PAPER
    reads = ("rewards", "entropies")
    by_group = True
    tells_correct = True
    needs = OWN_ADVANTAGES | SIGNS

    def __init__(self, args: GtpoOptions) -> None:
        super().__init__(args)
        if args.gtpo_normalize == "separate":
            logger.warning(
                "gtpo_normalize='separate': the mean advantage over the tokens of correct answers is 0, about half of "
                "them are punished."
            )

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N T"]:
        """Return advantages `[N, T]`, 0 where the reward is missing."""
        right = is_right(rollout, self.args).unsqueeze(1)
        counted = rollout.responses.bool() & ~rollout.rewards.isnan().unsqueeze(1)
        rewards = torch.where(counted, self.shaped_rewards(rollout), torch.nan)
        if self.args.gtpo_normalize == "joint":
            return standardized(rewards, rollout.num_generations, EPS)
        one, other = (torch.where(right == side, rewards, torch.nan) for side in (True, False))
        return standardized(one, rollout.num_generations, EPS) + standardized(other, rollout.num_generations, EPS)

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
