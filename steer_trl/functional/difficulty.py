"""Advantages that depend on a problem's difficulty.

The difficulty is measured by the share p of correct completions in the problem's group. A group has n scored
completions, of which c are correct. r is 1 for a correct completion and 0 otherwise, and p = c / n:

    MaxRL    (r - p) / p                                        arXiv 2602.02710
    F-GRPO   (1 - p)^gamma A,   for any advantage A             arXiv 2602.06717
    pass@k   (r - p) C(n - c - 1, k - 1) / C(n - 1, k - 1)      arXiv 2508.10751, before it is scaled

Pass@k gives a subset of k completions the score 1 if any of them is correct, and 0 otherwise. The advantage of a
completion is the mean score of the subsets that include it, minus the mean score of all subsets. This equals
(n / k) (s - mean s), where s is the reward in theorem 2 of arXiv 2505.15201. For large n, the factor of r - p becomes
the factor of F-GRPO with gamma = k - 1.

`correct` `[N]` holds r, or NaN for a completion that was not scored. Such a completion does not count in its group,
and its advantage is 0.
"""

import torch
from jaxtyping import Float
from torch import Tensor


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
