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
    kept = values[valid]
    return _kth_largest(kept, kept.numel() - math.floor(q * (kept.numel() - 1)))


def top_fraction(values: Tensor, valid: Tensor, fraction: float) -> Tensor:
    """Select the top `fraction` of the valid values: a boolean mask, all `False` for a fraction of 0 or an empty set.

    The number selected is `ceil(fraction * n)` and at least 1, as in STARE's released code; ties with the smallest
    selected value are all selected, as in the paper (`value >= threshold`).
    """
    kept = values[valid]
    # 1e-6 is the released code's guard: it keeps 0.07 * 100 = 7.000000000000001 from counting as 8.
    k = max(1, math.ceil(fraction * kept.numel() - 1e-6)) if fraction > 0 else 0
    return valid & (values >= _kth_largest(kept, k))


def _kth_largest(kept: Tensor, k: int) -> Tensor:
    return kept.topk(k).values[-1] if 1 <= k <= kept.numel() else kept.new_tensor(torch.inf)
