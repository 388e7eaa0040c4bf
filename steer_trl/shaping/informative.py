"""Finds the groups that carry a learning signal, for dynamic sampling (DAPO, arXiv 2503.14476, equation 11).

A group whose completions are all correct or all incorrect has advantages of 0. A group of G completions must therefore
satisfy 0 < number of correct completions < G.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TOLERANCE = 1e-6
"""The scores of a group count as equal if they differ by at most this."""


def is_informative(correctness: Float[Tensor, "N"], num_generations: int) -> Bool[Tensor, "groups"]:
    """Return a mask `[N / num_generations]` of the prompts whose completions differ in `correctness`.

    NaN stands for a completion that was not scored, and is ignored. A group with fewer than two scores is not
    informative.
    """
    groups = correctness.view(-1, num_generations)
    highest = torch.where(groups.isnan(), -torch.inf, groups).amax(1)
    lowest = torch.where(groups.isnan(), torch.inf, groups).amin(1)
    return highest - lowest > TOLERANCE
