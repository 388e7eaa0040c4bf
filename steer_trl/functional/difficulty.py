"""Advantages by difficulty: functions of the share p of a group's completions that are correct.

Of n completions that were scored c are correct; r is 1 for a correct one and 0 for another, p = c / n:

    MaxRL    (r - p) / p                                        arXiv 2602.02710
    F-GRPO   (1 - p)^gamma A,   A any advantage                 arXiv 2602.06717
    pass@k   (r - p) C(n - c - 1, k - 1) / C(n - 1, k - 1)      arXiv 2508.10751, before it divides by a deviation

The last is what the subsets of k completions that include one say of it: the mean over them of (1 if any is correct),
minus the mean over all subsets. It is n / k times the rewards of 2505.15201, theorem 2, minus their mean; for large n
it is F-GRPO's factor with gamma = k - 1.

`correct` `[N]` is r, NaN for a completion that was not scored: it counts in no group, and has the advantage 0.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def maxrl_advantages(correct: Float[Tensor, "N"], num_generations: int) -> Float[Tensor, "N"]:
    """MaxRL's advantages `[N]`; 0 where no completion of the group is correct."""
    groups = correct.view(-1, num_generations)
    rate = groups.nanmean(1, keepdim=True)
    return torch.where(rate > 0, (groups - rate) / rate, 0.0).nan_to_num(0.0).flatten()


def focal_factors(correct: Float[Tensor, "N"], num_generations: int, gamma: float) -> Float[Tensor, "N"]:
    """F-GRPO's factor of each completion's advantage `[N]`, in [0, 1]; 1 where it was not scored."""
    rate = correct.view(-1, num_generations).nanmean(1).repeat_interleave(num_generations)
    return torch.where(correct.isnan(), 1.0, (1 - rate) ** gamma)


def pass_at_k_advantages(
    correct: Float[Tensor, "N"], num_generations: int, k: int, scaled: bool
) -> Float[Tensor, "N"]:
    """The advantages of pass@k `[N]`; if `scaled` over the deviation sqrt(pass@k (1 - pass@k)), as in 2508.10751."""
    groups = correct.view(-1, num_generations)
    rate, scored = groups.nanmean(1, keepdim=True), (~groups.isnan()).sum(1, keepdim=True)
    incorrect, factor = (groups == 0).sum(1, keepdim=True), torch.ones_like(rate)
    for j in range(1, k):
        factor = factor * (incorrect - j).clamp(min=0) / (scored - j).clamp(min=1)
    if scaled:
        no_subset_passes = factor * (1 - rate)
        factor = factor / (no_subset_passes * (1 - no_subset_passes)).sqrt()
    return (factor * (groups - rate)).nan_to_num(0.0).flatten()  # 0 / 0 where all subsets are alike
