"""`maxrl`, `f_grpo` and `pass_at_k`: give a group more weight if fewer of its completions are correct.

    maxrl       A_hat_i = (r_i - p) / p                              MaxRL, arXiv 2602.02710
    f_grpo      A_hat_i = (1 - p)^gamma A_i                          F-GRPO, arXiv 2602.06717
    pass_at_k   A_hat_i = (r_i - p) C(n - c - 1, k - 1) / C(n - 1, k - 1) / std       arXiv 2508.10751, 2505.15201

A group has n scored completions, c of them correct, and p = c / n. r is 1 for a correct completion and 0 otherwise
(`functional/difficulty.py`). std is the standard deviation of pass@k over all subsets of k completions. With
`scale_rewards="none"` it is 1.

Use one of these methods if pass@k matters and prompts differ in difficulty. `maxrl` and `pass_at_k` replace the
advantages, and refuse rewards with more than two values. `f_grpo` multiplies TRL's advantages and accepts any rewards.
With `pass_at_k`, a group with fewer than k incorrect completions has advantages of 0, although dynamic sampling keeps
it. We have read only the abstracts and third-party accounts, so the authors' gamma and k, and other changes in their
runs, are not confirmed.
"""

from dataclasses import dataclass
from typing import Annotated, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.exceptions import InvalidValueError
from steer_trl.functional.difficulty import focal_factors, maxrl_advantages, pass_at_k_advantages
from steer_trl.options.base import CorrectnessOptions, Setting
from steer_trl.options.needs import OWN_OR_UNSCALED_ADVANTAGES
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import deciding_rewards, is_right

Options = TypeVar("Options", bound=CorrectnessOptions)


class ByDifficulty(Shaper[Options]):
    """The base class of `maxrl`, `f_grpo` and `pass_at_k`.

    These methods read the rewards of whole groups and no log-probabilities.
    """

    reads = ("rewards", "correctness")
    per_token = False

    def find_correct(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return a tensor `[N]`: 1 for correct, 0 for incorrect and NaN for unscored completions."""
        return is_right(rollout, self.args).float().masked_fill(deciding_rewards(rollout).isnan(), torch.nan)

    def find_only_correct(self, rollout: Rollout, name: str) -> Float[Tensor, "N"]:
        """Return the result of [`find_correct`], after checking the rewards.

        Raises `ValueError` if the rewards of the correct completions differ, or those of the incorrect ones.
        """
        correct = self.find_correct(rollout)
        of_each = [rollout.rewards[correct == outcome].unique() for outcome in (0, 1)]
        if max(map(len, of_each)) > 1:
            values = torch.cat(of_each).unique()
            seen = ", ".join(f"{value:g}" for value in values[:5].tolist()) + ", ..." * (len(values) > 5)
            threshold = self.args.correct_threshold
            raise InvalidValueError(
                f"{name!r} needs rewards of two values, one above correct_threshold={threshold:g}, and got {seen}: "
                "all else would be ignored. Give one reward function of two values, or use 'f_grpo'."
            )
        return correct


class MaxRL(ByDifficulty[CorrectnessOptions]):
    """MaxRL, which replaces the advantages with (r - p) / p."""

    options = CorrectnessOptions
    paper = PAPERS["2602.02710"]
    needs = OWN_OR_UNSCALED_ADVANTAGES

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return MaxRL's advantages (r - p) / p; 0 where the reward is missing."""
        return maxrl_advantages(self.find_only_correct(rollout, "maxrl"), rollout.num_generations)


@dataclass
class FGrpoOptions(CorrectnessOptions):
    """Settings of `"f_grpo"`."""

    f_grpo_gamma: Annotated[
        float, Setting("gamma: how strongly mostly correct groups are weighted down.", "[0, inf)", off=0)
    ] = 1.0


class FGrpo(ByDifficulty[FGrpoOptions]):
    """F-GRPO, which multiplies TRL's advantages by a factor that is smaller for easier groups."""

    options = FGrpoOptions
    paper = PAPERS["2602.06717"]

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the factor (1 - p)^gamma, where p is the share of correct completions in the group."""
        return focal_factors(self.find_correct(rollout), rollout.num_generations, self.args.f_grpo_gamma)


@dataclass
class PassAtKOptions(CorrectnessOptions):
    """Settings of `"pass_at_k"`."""

    pass_at_k: Annotated[
        int, Setting("k: tries of which one must be correct; < num_generations. 1 is GRPO.", "[1, inf)", off=1)
    ] = 4


class PassAtK(ByDifficulty[PassAtKOptions]):
    """Pass@k training, which replaces the advantages with pass@k advantages."""

    options = PassAtKOptions
    paper = PAPERS["2508.10751"]
    needs = OWN_OR_UNSCALED_ADVANTAGES

    @classmethod
    def complaints(cls, args: PassAtKOptions) -> list[str]:
        """Return a complaint if `pass_at_k` is so large that no group carries a learning signal."""
        if args.pass_at_k < args.num_generations:
            return []
        return [
            f"pass_at_k must be below num_generations={args.num_generations}, got {args.pass_at_k}: a group would "
            "have a single subset, which cannot be compared. Lower it, or raise num_generations."
        ]

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the pass@k advantages; 0 where the reward is missing."""
        correct = self.find_only_correct(rollout, "pass_at_k")
        is_scaled = self.args.scale_rewards in ("group", True)
        return pass_at_k_advantages(correct, rollout.num_generations, self.args.pass_at_k, is_scaled)
