"""Which groups teach something: the constraint of dynamic sampling (DAPO, arXiv 2503.14476, equation 11).

A group of completions that are all correct, or all incorrect, has no advantages: 0 < number of correct ones < G. Of
the others, those whose rewards hardly differ give the noisiest gradients: RAGEN-2 (arXiv 2604.06268) keeps the fewest
groups that have a given share of the rewards' variance.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TOLERANCE = 1e-6
ROUNDING = 1e-9


def is_informative(correctness: Float[Tensor, "N"], num_generations: int) -> Bool[Tensor, "groups"]:
    """Whether the completions of each prompt differ in `correctness` by more than 1e-6 `[N / num_generations]`.

    The range decides, not a comparison of a deviation with 0: the deviation of equal floats need not be 0. NaN (a
    completion that was not scored) is left out; a group without two scores is not informative.
    """
    groups = correctness.view(-1, num_generations)
    highest = torch.where(groups.isnan(), -torch.inf, groups).amax(1)
    lowest = torch.where(groups.isnan(), torch.inf, groups).amin(1)
    return highest - lowest > TOLERANCE


def has_variance(correctness: Float[Tensor, "N"], num_generations: int, share: float) -> Bool[Tensor, "groups"]:
    """Whether each group is among the fewest that have `share`, in (0, 1], of all groups' variance `[groups]`.

    Variances are unbiased, of the completions that were scored. Of groups with equal variance the first ones are kept;
    of informative groups at least one. With a share of 1 they are the informative ones.
    """
    informative = is_informative(correctness, num_generations)
    if share == 1:
        return informative
    groups = correctness.double().view(-1, num_generations)
    squares, scored = (groups - groups.nanmean(1, keepdim=True)).square().nansum(1), (~groups.isnan()).sum(1)
    variance = torch.where(informative, squares / (scored - 1), 0.0)
    variance = variance.cpu()  # CUDA has no deterministic cumsum of floats
    order = variance.argsort(descending=True, stable=True)
    before = variance[order].cumsum(0) - variance[order]
    kept = torch.empty_like(informative, device="cpu")
    kept[order] = before < share * variance.sum() * (1 - ROUNDING)
    return kept.to(informative.device) & informative


def pass_rate(correctness: Float[Tensor, "N"], num_generations: int, threshold: float) -> Float[Tensor, "groups"]:
    """Share of the scored completions of each prompt that are above `threshold` `[groups]`; NaN where none is."""
    correct = (correctness > threshold).double().masked_fill(correctness.isnan(), torch.nan)
    return correct.view(-1, num_generations).nanmean(1)
