r"""GTPO and GRPO-S, arXiv 2508.04349 (Tan and Pan): distribute the reward by entropy.

    gtpo     correct    r_it = R_i + a d_t H_it / sum_{k correct, alive at t} H_kt
             incorrect  r_jt = -1  - a h_t (1 / H_jt) / sum_{k incorrect, alive at t} 1 / H_kt
    grpo_s   correct    r_i = R_i + a n Hm_i / sum_correct Hm                            Hm_i = mean_t H_it
             incorrect  r_j = -1  - a m (1 / Hm_j) / sum_incorrect 1 / Hm

R is the reward, and H is the entropy under the policy that generated the rollout. A completion is alive at t if it has
a token there. The group has n correct and m incorrect completions, of which d_t and h_t are alive at t. A_hat =
(r - mean) / (std + eps) over all tokens, or completions, of the group. GTPO gives uncertain tokens more
credit in correct answers, and certain tokens more blame in incorrect ones. GRPO-S does the same with completions. Two
replications standardise the tokens of correct and of incorrect answers separately, and it is not confirmed whether the
authors do so. R has no weight of its own, because only its ratio to a matters. The authors' code was not found. The
value a = 0.1 is from the replications. Use these methods if all completions of a group are often correct.

GRPO-S clips the importance ratio s_i of a completion at 0.8 and 1.28, and averages over completions. s_i is the mean
of the completion's token ratios, while TRL's is their geometric mean. clip(s_i) A_i has the same gradient as unclipped
token ratios with A_hat_it = A_i if s_i lies inside its bound, and 0 otherwise. TRL's own clipping is therefore
switched off, and `loss_type` is "grpo". The logged loss is not clipped. The shares of tokens in clipped completions
are logged as `grpo_s/clipped_*`.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import CorrectnessSettings, Setting
from steer_trl.options.needs import OWN_ADVANTAGES, SIGNS, UNCLIPPED
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout, TokenBatch, mean_of_tokens
from steer_trl.shaping.clipping import find_clipped
from steer_trl.shaping.scores import deciding_rewards, is_right, standardize

EPS = 1e-8
EPSILON_LOW, EPSILON_HIGH = 0.2, 0.28


@dataclass
class GtpoOptions:
    """Options of `"gtpo"` and of `"grpo_s"`."""

    entropy_weight: Annotated[float, Setting("a: weight of the entropy term beside the reward.", "[0, inf)")] = 0.1


class ByEntropy(Shaper[CorrectnessSettings]):
    """The base class of GTPO and GRPO-S, which share their paper and settings."""

    settings_class = CorrectnessSettings
    options_class = GtpoOptions
    options: GtpoOptions
    paper = PAPERS["2508.04349"]
    reads = ("rewards", "correctness", "entropies")


class Gtpo(ByEntropy):
    """GTPO, which computes an advantage for each token."""

    needs = OWN_ADVANTAGES | SIGNS

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N T"]:
        """Return advantages `[N, T]`; 0 where the reward is missing."""
        counted = rollout.responses.bool() & ~deciding_rewards(rollout).isnan().unsqueeze(1)
        rewards = torch.where(counted, self.shaped_rewards(rollout), torch.nan)
        return standardize(rewards, rollout.num_generations, EPS)

    def shaped_rewards(self, rollout: Rollout) -> Tensor:
        """Return the shaped rewards r `[N, T]`; values outside the responses are arbitrary.

        A token without a finite entropy is not counted, and gets the reward of a token with the mean entropy.
        """
        is_finite = rollout.entropies.isfinite()
        entropies = torch.where(is_finite, rollout.entropies.float(), 1.0)
        is_correct = is_right(rollout, self.args).unsqueeze(1)
        alive = rollout.responses.bool() & is_finite & ~deciding_rewards(rollout).isnan().unsqueeze(1)
        rewards = rollout.rewards.nan_to_num(0.0).unsqueeze(1)
        a = self.options.entropy_weight
        size = rollout.num_generations
        uncertain = torch.where(is_finite, divide_by_mean(entropies, alive & is_correct, size, EPS), 1.0)
        certain = torch.where(is_finite, divide_by_mean(1 / (entropies + EPS), alive & ~is_correct, size, EPS), 1.0)
        return torch.where(is_correct, rewards + a * uncertain, -1 - a * certain)


class GrpoS(ByEntropy):
    """GRPO-S, which computes an advantage for each completion and clips the ratios of completions."""

    distinguishes_tokens = False
    needs = OWN_ADVANTAGES
    surrogate = UNCLIPPED | {"loss_type": "grpo"}

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the advantage of each completion; 0 if its reward is missing or it has no tokens."""
        entropy = rollout.mean_of_tokens(rollout.entropies)
        scored = ~entropy.isnan() & ~deciding_rewards(rollout).isnan()
        rewards = torch.where(scored, rollout.rewards, torch.nan)
        is_correct = is_right(rollout, self.args)
        a = self.options.entropy_weight
        size = rollout.num_generations
        credit = rewards + a * divide_by_mean(entropy, is_correct & scored, size, EPS)
        blame = -1 - a * divide_by_mean(1 / (entropy + EPS), ~is_correct & scored, size, EPS)
        shaped = torch.where(is_correct, credit, blame)
        return standardize(torch.where(scored, shaped, torch.nan), size, eps=1e-6)

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 for the tokens of clipped completions, 1 for others."""
        low, high = self._find_clipped(batch)
        return (~(low | high)).float()

    def marks(self, batch: TokenBatch, measure: None) -> dict[str, Bool[Tensor, "B T"]]:
        """Return the masks of the tokens whose completions are clipped at the low and at the high bound."""
        low, high = self._find_clipped(batch)
        return {"grpo_s/clipped_low": low, "grpo_s/clipped_high": high}

    def _find_clipped(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        # A completion without tokens has a ratio of NaN, which is not clipped.
        ratio = mean_of_tokens(batch.ratio, batch.mask).unsqueeze(1)
        low, high = find_clipped(ratio, batch.advantages, 1 - EPSILON_LOW, 1 + EPSILON_HIGH)
        return low.expand_as(batch.logps), high.expand_as(batch.logps)


def divide_by_mean(
    values: Float[Tensor, "N *T"], counted: Bool[Tensor, "N *T"], group_size: int, eps: float
) -> Float[Tensor, "N *T"]:
    """Divide each value `[N]` or `[N, T]` by the mean of its group's values at the same position.

    The mean is over the values that `counted` selects.
    """
    shape = (-1, group_size, *values.shape[1:])
    grouped = values.view(shape)
    members = counted.view(shape)
    count = members.sum(1, keepdim=True)
    total = torch.where(members, grouped, 0.0).sum(1, keepdim=True)
    return (count * grouped / (total + eps)).view_as(values)
