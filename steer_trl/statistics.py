"""What a token is compared with: every number that one token's weight takes from the other tokens.

The papers define these numbers over the batch. Today "the batch" is the tensor that is passed in, which the trainer
makes one process's micro-batch; this file is the only place that has to change for them to span the whole optimizer
step and all ranks. Nothing else in the package looks at two tokens at once.

Every function takes `values` and a boolean `valid` of the same shape and ignores what is not valid. An empty set is
legal and gives a neutral answer, never an error: a micro-batch can be all padding.
"""

import math

import torch
from torch import Tensor


def largest(values: Tensor, valid: Tensor) -> Tensor:
    """Return the largest valid value, as a 0-d tensor; `-inf` when nothing is valid."""
    return torch.where(valid, values, -torch.inf).amax()


def smallest(values: Tensor, valid: Tensor) -> Tensor:
    """Return the smallest valid value, as a 0-d tensor; `inf` when nothing is valid."""
    return torch.where(valid, values, torch.inf).amin()


def quantile(values: Tensor, valid: Tensor, q: float) -> Tensor:
    """Return the `q`-quantile of the valid values, as a 0-d tensor; `inf` when nothing is valid.

    It is the order statistic below the quantile's position, not an interpolation: `value > quantile` selects the same
    tokens either way, and an order statistic of float32 values is exact. `torch.quantile` is not used because it fails
    above 2^24 elements.
    """
    count = int(valid.sum())
    return _kth_largest(values, valid, count - math.floor(q * (count - 1)))


def top_fraction(values: Tensor, valid: Tensor, fraction: float) -> Tensor:
    """Select the top `fraction` of the valid values: a boolean mask, all `False` for a fraction of 0 or an empty set.

    The number selected is `ceil(fraction * n)` and at least 1, as in STARE's released code; ties with the smallest
    selected value are all selected, as in the paper (`value >= threshold`).
    """
    count = int(valid.sum())
    # 1e-6 is the released code's guard: it keeps 0.1 * 10 = 1.0000000000000002 from counting as 2.
    k = max(1, math.ceil(fraction * count - 1e-6)) if fraction > 0 else 0
    return valid & (values >= _kth_largest(values, valid, k))


def _kth_largest(values: Tensor, valid: Tensor, k: int) -> Tensor:
    if k < 1 or k > int(valid.sum()):
        return values.new_tensor(torch.inf)
    return values[valid].topk(k).values[-1]
