"""The groups that carry a learning signal: dynamic sampling's constraint (DAPO, arXiv 2503.14476, equation 11).

A group of completions that are all correct, or all incorrect, has no advantages: 0 < number of correct ones < G.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TOLERANCE = 1e-6
"""A range at or below this is rounding between equal numbers."""


def is_informative(correctness: Float[Tensor, "N"], num_generations: int) -> Bool[Tensor, "groups"]:
    """Return whether the completions of each prompt differ in `correctness` `[N / num_generations]`.

    NaN stands for a completion that was not scored, and is left out. A group without two scores is not informative.
    """
    groups = correctness.view(-1, num_generations)
    highest = torch.where(groups.isnan(), -torch.inf, groups).amax(1)
    lowest = torch.where(groups.isnan(), torch.inf, groups).amin(1)
    return highest - lowest > TOLERANCE
