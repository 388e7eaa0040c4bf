"""PPL- and position-based shaping, arXiv 2508.02260: surprising completions get less weight, or late tokens get more.

    ppl        A_hat_i = A_i (1 - alpha w_i),   w_i = (x_i - mean x) / std x,   x_i = ln PPL_i = -(1 / L_i) sum_t lq_it
    position   A_hat_it = A_i + sign(A_i) gamma sigmoid(rho_it),   rho_it = t / L_i in (0, 1],  t = 1, 2, ...

The mean and the standard deviation are over the group. |w| is limited to 3, so an advantage never changes its sign for
alpha < 1/3. t and L_i count generated tokens, and lq is a token's log-probability under the policy that generated it.
The values of the sigmoid lie between 0.5 and 0.73. Four choices could not be confirmed from the paper: alpha = 0.01,
gamma = 0.1, the mean and the standard deviation over the group, and rho without a factor. Use `position` if the
decisive tokens of an answer are near its end.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import standardize

LARGEST_SCORE = 3.0


@dataclass
class PplOptions:
    """Options of `"ppl"`."""

    alpha: Annotated[
        float,
        Setting(
            "Share of an advantage that one standard deviation of ln PPL takes away; 0 is GRPO.",
            f"[0, {1 / LARGEST_SCORE})",
            neutral=0,
        ),
    ] = 0.01


class Ppl(Shaper[ShapingConfig]):
    """PPL-based shaping, which shrinks the advantages of surprising completions."""

    options_class = PplOptions
    options: PplOptions
    paper = PAPERS["2508.02260"]
    reads = ("rewards", "logps")
    distinguishes_tokens = False

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the factor 1 - alpha w, where w is the standardised log-perplexity."""
        log_ppl = -rollout.mean_of_scored(rollout.logps)
        w = standardize(log_ppl, rollout.num_generations, eps=0.0).clamp(-LARGEST_SCORE, LARGEST_SCORE)
        return 1 - self.options.alpha * w


@dataclass
class PositionOptions:
    """Options of `"position"`."""

    gamma: Annotated[float, Setting("Size of the bonus; 0 is GRPO.", "[0, inf)", neutral=0)] = 0.1


class Position(Shaper[ShapingConfig]):
    """Advantages with a bonus that grows along the completion."""

    options_class = PositionOptions
    options: PositionOptions
    paper = PAPERS["2508.02260"]

    def rollout_bonus(self, rollout: Rollout) -> Float[Tensor, "N T"]:
        """Return the bonus sign(A) gamma sigmoid(rho) `[N, T]`."""
        # Positions are integers, because CUDA has no deterministic cumsum of floats.
        count = rollout.responses.cumsum(1, dtype=torch.int32)
        position = count / rollout.lengths.clamp(min=1).unsqueeze(1)
        return rollout.advantages.sign() * (self.options.gamma * torch.sigmoid(position))
