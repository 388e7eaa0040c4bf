"""`maxrl`, `f_grpo` and `pass_at_k`: give a group more weight if fewer of its completions are correct.

    maxrl       A_hat_i = (r_i - p) / p                              MaxRL, arXiv 2602.02710
    f_grpo      A_hat_i = (1 - p)^gamma A_i                          F-GRPO, arXiv 2602.06717
    pass_at_k   A_hat_i = (r_i - p) C(n - c - 1, k - 1) / C(n - 1, k - 1) / std       arXiv 2508.10751, 2505.15201

A group has n scored completions, c of them correct, and p = c / n. r is 1 for a correct completion and 0 otherwise.

Pass@k gives a subset of k completions the score 1 if any of them is correct, and 0 otherwise. The advantage of a
completion is the mean score of the subsets that include it, minus the mean score of all subsets. This equals
(n / k) (s - mean s), where s is the reward in theorem 2 of arXiv 2505.15201. For large n, the factor of r - p becomes
the factor of F-GRPO with gamma = k - 1. std is the standard deviation of pass@k over all subsets of k completions.
With `scale_rewards="none"` it is 1.

In the functions, `correct` `[N]` holds r, or NaN for a completion that was not scored. Such a completion does not
count in its group, and its advantage is 0.

Use one of these methods if pass@k matters and prompts differ in difficulty. `maxrl` and `pass_at_k` replace the
advantages, and refuse rewards of more than two values. `f_grpo` multiplies TRL's advantages and accepts any rewards.
With `pass_at_k`, a group with fewer than k incorrect completions has advantages of 0, although dynamic sampling keeps
it. We have read only the abstracts and third-party accounts, so the authors' gamma and k, and other changes in their
runs, are not confirmed.
"""

from dataclasses import dataclass
from typing import Annotated, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import CorrectnessSettings, Setting
from steer_trl.options.methods import PassAtKSettings
from steer_trl.options.needs import OWN_OR_UNSCALED_ADVANTAGES
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import deciding_rewards, is_right
from steer_trl.support.exceptions import InvalidValueError


def maxrl_advantages(correct: Float[Tensor, "N"], num_generations: int) -> Float[Tensor, "N"]:
    """Return MaxRL's advantages `[N]`; 0 if no completion of the group is correct."""
    groups = correct.view(-1, num_generations)
    rate = groups.nanmean(1, keepdim=True)
    return torch.where(rate > 0, (groups - rate) / rate, 0.0).nan_to_num(0.0).flatten()


def focal_factors(correct: Float[Tensor, "N"], num_generations: int, gamma: float) -> Float[Tensor, "N"]:
    """Return F-GRPO's factor for each advantage `[N]`, in [0, 1]; 1 for a completion without a score."""
    rate = correct.view(-1, num_generations).nanmean(1).repeat_interleave(num_generations)
    return torch.where(correct.isnan(), 1.0, (1 - rate) ** gamma)


def pass_at_k_advantages(
    correct: Float[Tensor, "N"], num_generations: int, k: int, scaled: bool
) -> Float[Tensor, "N"]:
    """Return the pass@k advantages `[N]`.

    If `scaled`, they are divided by sqrt(pass@k (1 - pass@k)), as in arXiv 2508.10751.
    """
    groups = correct.view(-1, num_generations)
    rate = groups.nanmean(1, keepdim=True)
    scored = (~groups.isnan()).sum(1, keepdim=True)
    incorrect = (groups == 0).sum(1, keepdim=True)
    factor = torch.ones_like(rate)
    for j in range(1, k):
        factor = factor * (incorrect - j).clamp(min=0) / (scored - j).clamp(min=1)
    if scaled:
        no_subset_passes = factor * (1 - rate)
        factor = factor / (no_subset_passes * (1 - no_subset_passes)).sqrt()
    # If all subsets have the same score, the scaled factor is 0 / 0.
    return (factor * (groups - rate)).nan_to_num(0.0).flatten()


Config = TypeVar("Config", bound=CorrectnessSettings)


class ByDifficulty(Shaper[Config]):
    """The base class of `maxrl`, `f_grpo` and `pass_at_k`.

    These methods read the rewards of whole groups and no log-probabilities.
    """

    reads = ("rewards", "correctness")
    distinguishes_tokens = False

    def find_correct(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return a tensor `[N]`: 1 for correct, 0 for incorrect and NaN for unscored completions."""
        return is_right(rollout, self.args).float().masked_fill(deciding_rewards(rollout).isnan(), torch.nan)


class OfTwoValues(ByDifficulty[Config]):
    """The base class of `maxrl` and `pass_at_k`, which read only whether a completion is correct.

    They refuse rewards with more than two values, because they would ignore the other differences.
    """

    needs = OWN_OR_UNSCALED_ADVANTAGES

    def check_rewards(self, rewards: Float[Tensor, "N"], deciding: Float[Tensor, "N"]) -> None:
        """Raise `ValueError` if the rewards of the correct completions differ, or those of the incorrect ones."""
        threshold = self.args.correct_threshold
        of_each = [rewards[where].unique() for where in (deciding > threshold, deciding <= threshold)]
        if max(map(len, of_each)) > 1:
            values = torch.cat(of_each).unique()
            listed = ", ".join(f"{value:g}" for value in values[:5].tolist()) + ", ..." * (len(values) > 5)
            raise InvalidValueError(
                f"{self.name!r} needs rewards of two values, one above correct_threshold={threshold:g}, and got "
                f"{listed}: all else would be ignored. Give one reward function of two values, or use 'f_grpo'."
            )


class MaxRL(OfTwoValues[CorrectnessSettings]):
    """MaxRL, which replaces the advantages with (r - p) / p."""

    settings_class = CorrectnessSettings
    paper = PAPERS["2602.02710"]

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return MaxRL's advantages (r - p) / p; 0 where the reward is missing."""
        return maxrl_advantages(self.find_correct(rollout), rollout.num_generations)


@dataclass
class FGrpoOptions:
    """Options of `"f_grpo"`."""

    gamma: Annotated[
        float, Setting("gamma: how strongly mostly correct groups are weighted down.", "[0, inf)", neutral=0)
    ] = 1.0


class FGrpo(ByDifficulty[CorrectnessSettings]):
    """F-GRPO, which multiplies TRL's advantages by a factor that is smaller for easier groups."""

    settings_class = CorrectnessSettings
    options_class = FGrpoOptions
    options: FGrpoOptions
    paper = PAPERS["2602.06717"]

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the factor (1 - p)^gamma, where p is the share of correct completions in the group."""
        return focal_factors(self.find_correct(rollout), rollout.num_generations, self.options.gamma)


class PassAtK(OfTwoValues[PassAtKSettings]):
    """Pass@k training, which replaces the advantages with pass@k advantages."""

    settings_class = PassAtKSettings
    paper = PAPERS["2508.10751"]

    @classmethod
    def complaints(cls, args: PassAtKSettings) -> list[str]:
        """Return a complaint if `pass_at_k` is so large that no group carries a learning signal."""
        if args.pass_at_k < args.num_generations:
            return []
        return [
            f"pass_at_k must be below num_generations={args.num_generations}, got {args.pass_at_k}: a group would "
            "have a single subset, which cannot be compared. Lower it, or raise num_generations."
        ]

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the pass@k advantages; 0 where the reward is missing."""
        correct = self.find_correct(rollout)
        is_scaled = self.args.scale_rewards in ("group", True)
        return pass_at_k_advantages(correct, rollout.num_generations, self.args.pass_at_k, is_scaled)
