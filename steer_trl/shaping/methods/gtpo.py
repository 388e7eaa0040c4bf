r"""GTPO, arXiv 2508.04349 (Tan and Pan): credit goes to the uncertain tokens of correct answers, blame to the certain
tokens of incorrect ones.

    correct:    r_it = R_i + a d_t H_it / sum_{k correct, alive at t} H_kt        d_t of them are alive at t
    incorrect:  r_jt = -1  - a h_t (1 / H_jt) / sum_{k incorrect, alive at t} 1 / H_kt

H of the policy that wrote the rollout; A_hat = (r - mean) / (std + 1e-8) over all tokens of the group. (Two
replications standardise the tokens of correct and of incorrect answers apart, where half of the tokens of correct
answers are punished.) The paper's weight of R is 1: only its ratio to a acts. No code of the authors was found;
a = 0.1 is the replications'. Choose it where whole groups are correct.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig, option
from steer_trl.options.needs import OWN_ADVANTAGES, SIGNS
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import is_right, relative, standardized

EPS = 1e-8
GTPO_PAPER = PAPERS["2508.04349"]


@dataclass
class GtpoOptions(ShapingConfig):
    """Settings of `"gtpo"` and of `"grpo_s"`."""

    gtpo_entropy_weight: float = option(0.1, "a: weight of the entropy's share beside the reward.", "[0, inf)")


class Gtpo(Shaper[GtpoOptions]):
    """GTPO's token advantages."""

    options = GtpoOptions
    paper = GTPO_PAPER
    reads = ("rewards", "entropies")
    by_group = True
    tells_correct = True
    needs = OWN_ADVANTAGES | SIGNS

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N T"]:
        """Return advantages `[N, T]`, 0 where the reward is missing."""
        counted = rollout.responses.bool() & ~rollout.rewards.isnan().unsqueeze(1)
        rewards = torch.where(counted, self.shaped_rewards(rollout), torch.nan)
        return standardized(rewards, rollout.num_generations, EPS)

    def shaped_rewards(self, rollout: Rollout) -> Tensor:
        """Return r `[N, T]`; what it is off the responses does not matter.

        A token without a finite entropy is not counted, and gets what one at the mean gets.
        """
        known = rollout.entropies.isfinite()
        entropies = torch.where(known, rollout.entropies.float(), 1.0)
        right = is_right(rollout, self.args).unsqueeze(1)
        alive = rollout.responses.bool() & known & ~rollout.rewards.isnan().unsqueeze(1)
        rewards = rollout.rewards.nan_to_num(0.0).unsqueeze(1)
        a, size = self.args.gtpo_entropy_weight, rollout.num_generations
        uncertain = torch.where(known, relative(entropies, alive & right, size, EPS), 1.0)
        certain = torch.where(known, relative(1 / (entropies + EPS), alive & ~right, size, EPS), 1.0)
        return torch.where(right, rewards + a * uncertain, -1 - a * certain)
