"""The unlikeliness reward, arXiv 2506.02355: a correct answer is worth less, the likelier it was.

    R'_i = R_i (1 - beta rank_i / G) if correct,   A_hat = (R' - mean) / (std + 1e-6)   over the group

G is the number of completions in a group. Rank 0 is the least likely completion, by the mean log-probability of its
tokens under the policy that generated it. The ranks follow the released code. The paper counts from the other end,
which differs by 1 / G. The authors soften every reward above 0, which is the default of `correct_threshold`. Other
rewards do not change, so with rewards of 1 and -1 a likely incorrect answer keeps its -1. A group whose completions
are all correct carries a learning signal, which is the purpose of the method. Use the unlikeliness reward if pass@k
matters. The authors train with G = 32.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import CorrectnessSettings, Setting
from steer_trl.options.needs import OWN_ADVANTAGES
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import deciding_rewards, is_right, standardize


@dataclass
class UnlikelihoodOptions:
    """Options of `"unlikelihood"`."""

    beta: Annotated[
        float, Setting("About what share the likeliest correct answer loses; 0 is GRPO.", "[0, 1]", neutral=0)
    ] = 0.25


class Unlikelihood(Shaper[CorrectnessSettings]):
    """Advantages computed from rewards that favour unlikely correct answers."""

    settings_class = CorrectnessSettings
    options_class = UnlikelihoodOptions
    options: UnlikelihoodOptions
    paper = PAPERS["2506.02355"]
    reads = ("rewards", "correctness", "logps")
    distinguishes_tokens = False
    needs = OWN_ADVANTAGES

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the advantages of the shaped rewards R'; 0 where the reward is missing."""
        group_size = rollout.num_generations
        likelihood = rollout.mean_of_tokens(rollout.logps)
        is_missing = rollout.rewards.isnan() | deciding_rewards(rollout).isnan()
        # A completion without tokens or without a reward ranks last, so that the other ranks do not shift.
        likelihood = torch.where(likelihood.isnan() | is_missing, torch.inf, likelihood)
        order = likelihood.view(-1, group_size).argsort(dim=1, stable=True)
        rank = order.argsort(dim=1).flatten()
        softened = rollout.rewards * (1 - self.options.beta * rank / group_size)
        rewards = torch.where(is_right(rollout, self.args), softened, rollout.rewards)
        return standardize(rewards.masked_fill(is_missing, torch.nan), group_size, eps=1e-6)
