"""PPL-based shaping, arXiv 2508.02260: completions that surprise the policy as a whole count a little less.

    A_hat_i = A_i (1 - alpha w_i),   w_i = (x_i - mean x) / std x,   x_i = ln PPL_i = -(1 / L_i) sum_t lq_it

over the group; whether that is the paper's choice, and its alpha, could not be verified. w is bounded
by 3 in size, so the sign of an advantage never turns for alpha < 1/3. Its sibling for tokens is `"position"`.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig, option
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import standardized

DECOMPOSING = PAPERS["2508.02260"]
LARGEST_SCORE = 3.0


@dataclass
class PplOptions(ShapingConfig):
    """Settings of `"ppl"`."""

    ppl_alpha: float = option(
        0.01,
        "What one standard deviation of ln PPL takes away, never the sign of an advantage; 0 is GRPO.",
        f"[0, {1 / LARGEST_SCORE})",
    )


class Ppl(Shaper[PplOptions]):
    """Advantages weighted by perplexity."""

    options = PplOptions
    paper = DECOMPOSING
    reads = ("rewards", "logps")
    by_group = True
    per_token = False

    @property
    def active(self) -> bool:
        """False for alpha = 0."""
        return self.args.ppl_alpha > 0

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return 1 - alpha w."""
        log_ppl = -rollout.mean_of_scored(rollout.logps)
        w = standardized(log_ppl, rollout.num_generations, eps=0.0).clamp(-LARGEST_SCORE, LARGEST_SCORE)
        return 1 - self.args.ppl_alpha * w
