"""Which groups teach something: the constraint of dynamic sampling (DAPO, arXiv 2503.14476, equation 11).

A group of completions that are all correct, or all incorrect, has no advantages: 0 < number of correct ones < G.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TOLERANCE = 1e-6  # of the range: the deviation of equal floats need not be 0


def is_informative(correctness: Float[Tensor, "N"], num_generations: int) -> Bool[Tensor, "groups"]:
    """Whether the completions of each prompt differ in `correctness` by more than rounding `[N / num_generations]`.

    NaN (a completion that was not scored) is left out; a group without two scores is not informative.
    """
    groups = correctness.view(-1, num_generations)
    highest = torch.where(groups.isnan(), -torch.inf, groups).amax(1)
    lowest = torch.where(groups.isnan(), torch.inf, groups).amin(1)
    return highest - lowest > TOLERANCE
