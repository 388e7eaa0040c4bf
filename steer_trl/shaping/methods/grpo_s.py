r"""GRPO-S, arXiv 2508.04349: GTPO's idea for whole completions, with a ratio of the completion.

    correct:    r_i = R_i + a n Hm_i / sum_correct Hm        Hm_i = mean_t H_it, of the rollout's policy
    incorrect:  r_j = -1  - a m (1 / Hm_j) / sum_incorrect 1 / Hm
    A_i = (r_i - mean) / (std + 1e-6)
    the ratio s_i = mean_t r_it (arithmetic) is clipped at 0.8 and 1.28, and the loss is a mean over completions

The gradient of clip(s_i) A_i is that of unclipped token ratios with A_hat_it = A_i where s_i lies inside its bound and
0 elsewhere, averaged over the tokens of a completion: so TRL's own clipping is switched off and `loss_type` is "grpo".
The loss that is logged is then unclipped, and TRL's clip ratios are 0; `grpo_s/clipped_*` count what is clipped. TRL's
sequence-level ratio is the geometric mean: not the same.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.functional.clipping import clipped
from steer_trl.options.needs import OWN_ADVANTAGES, UNCLIPPED
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.batch import Rollout, TokenBatch, mean_of_tokens
from steer_trl.shaping.methods.gtpo import EPS, GTPO_PAPER, GtpoOptions
from steer_trl.shaping.scores import is_right, relative, standardized

EPSILON_LOW, EPSILON_HIGH = 0.2, 0.28


class GrpoS(Shaper[GtpoOptions]):
    """GRPO-S's advantages, and its clipping."""

    options = GtpoOptions
    paper = GTPO_PAPER
    reads = ("rewards", "entropies")
    by_group = True
    per_token = False
    tells_correct = True
    needs = OWN_ADVANTAGES
    surrogate = UNCLIPPED | {"loss_type": "grpo"}

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the advantage of each completion, 0 where the reward is missing or the policy wrote nothing."""
        entropy = rollout.mean_of_tokens(rollout.entropies)
        rewards = torch.where(entropy.isnan(), torch.nan, rollout.rewards)
        scored, right = ~rewards.isnan(), is_right(rollout, self.args)
        a, size = self.args.gtpo_entropy_weight, rollout.num_generations
        credit = rewards + a * relative(entropy, right & scored, size, EPS)
        blame = -1 - a * relative(1 / (entropy + EPS), ~right & scored, size, EPS)
        shaped = torch.where(right, credit, blame)
        return standardized(torch.where(scored, shaped, torch.nan), size, eps=1e-6)

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 for the tokens of clipped completions, 1 for others."""
        low, high = self._clipped(batch)
        return (~(low | high)).float()

    def marks(self, batch: TokenBatch, measure: None) -> dict[str, Bool[Tensor, "B T"]]:
        """Return which tokens are in clipped completions."""
        low, high = self._clipped(batch)
        return {"grpo_s/clipped_low": low, "grpo_s/clipped_high": high}

    def _clipped(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        ratio = mean_of_tokens(batch.ratio, batch.mask).unsqueeze(1)  # NaN without tokens: not clipped
        low, high = clipped(ratio, batch.advantages, 1 - EPSILON_LOW, 1 + EPSILON_HIGH)
        return low.expand_as(batch.logps), high.expand_as(batch.logps)
