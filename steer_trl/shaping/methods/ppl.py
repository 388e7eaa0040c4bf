"""PPL-based shaping, arXiv 2508.02260: completions that surprise the policy as a whole count a little less.

    A_hat_i = A_i (1 - alpha w_i),   w_i = (x_i - mean x) / std x,   x_i = ln PPL_i = -(1 / L_i) sum_t lq_it

over the group, or over the rollout (`ppl_scope`); the paper's choice and its alpha could not be verified. w is bounded
by 3 in size, so the sign of an advantage never turns for alpha < 1/3. Its sibling for tokens is `"position"`.
"""

from dataclasses import dataclass

from torch import Tensor

from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.groups import standardized
from steer_trl.shaping.options import ShapingConfig, option
from steer_trl.validation import in_interval, one_of

DECOMPOSING = Paper(
    "Decomposing the Entropy-Performance Exchange: The Missing Keys to Unlocking Effective Reinforcement Learning",
    "Jia Deng and Jie Chen and Zhipeng Chen and Wayne Xin Zhao and Ji-Rong Wen",
    2025,
    "2508.02260",
)
LARGEST_SCORE = 3.0


@dataclass
class PplOptions(ShapingConfig):
    """Settings of `"ppl"`."""

    ppl_alpha: float = option(0.01, "What one standard deviation of ln PPL takes away, in [0, 1/3); 0 is GRPO.")
    ppl_scope: str = option("group", "Completions that one is compared with: of its 'group', or of the 'rollout'.")


class Ppl(Shaper[PplOptions]):
    """Advantages weighted by perplexity."""

    paper = DECOMPOSING
    stage = "scale"
    reads = ("rewards", "logps")
    per_token = False

    def __init__(self, args: PplOptions) -> None:
        super().__init__(args)
        self.by_group = args.ppl_scope == "group"

    @classmethod
    def complaints(cls, args: PplOptions) -> list[str]:
        """Check the settings."""
        why = "a larger one could turn the sign of an advantage"
        return [
            *in_interval("ppl_alpha", args.ppl_alpha, f"[0, {1 / LARGEST_SCORE})", why),
            *one_of("ppl_scope", args.ppl_scope, ("group", "rollout")),
        ]

    @property
    def active(self) -> bool:
        """False for alpha = 0."""
        return self.args.ppl_alpha > 0

    def advantages(self, rollout: Rollout) -> Tensor:
        """Return A (1 - alpha w)."""
        log_ppl = -rollout.mean_of_scored(rollout.logps)
        compared = rollout.num_generations if self.args.ppl_scope == "group" else len(log_ppl)
        w = standardized(log_ppl, compared, eps=0.0).clamp(-LARGEST_SCORE, LARGEST_SCORE)
        return rollout.advantages * (1 - self.args.ppl_alpha * w).unsqueeze(1)
