"""Finds the groups that carry a learning signal: dynamic sampling's constraint (DAPO, arXiv 2503.14476, equation 11).

A group whose completions are all correct or all incorrect has advantages of 0. The constraint is therefore
0 < number of correct completions < G.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TOLERANCE = 1e-6
"""Scores of a group count as equal if their range is at most this."""


def is_informative(correctness: Float[Tensor, "N"], num_generations: int) -> Bool[Tensor, "groups"]:
    """Return for each prompt whether its completions differ in `correctness`, `[N / num_generations]`.

    NaN stands for a completion that was not scored, and is left out. A group with fewer than two scores is not
    informative.
    """
    groups = correctness.view(-1, num_generations)
    highest = torch.where(groups.isnan(), -torch.inf, groups).amax(1)
    lowest = torch.where(groups.isnan(), torch.inf, groups).amin(1)
    return highest - lowest > TOLERANCE
