"""What a token is compared with: every number that one token's weight takes from the other tokens.

`values` are the tokens that this process has; `reduce` adds those of the other ranks: [`this_process`] does not,
[`all_ranks`] does. Every function calls `reduce` equally often on every rank, with tensors whose size does not depend
on the number of tokens, and ignores what is not `valid`. An empty set gives a neutral answer: a rank's tokens can all
be masked.
"""

import math
from collections.abc import Callable

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Float32, Shaped
from torch import Tensor

Reduce = Callable[[Tensor, str], Tensor]


def this_process(tensor: Shaped[Tensor, "*size"], operation: str) -> Shaped[Tensor, "*size"]:
    """Reduce over nothing: the statistic of the tokens at hand."""
    return tensor


def all_ranks(tensor: Shaped[Tensor, "*size"], operation: str) -> Shaped[Tensor, "*size"]:
    """Reduce `tensor` in place over all ranks by `operation`, `"sum"` or `"max"`. Collective."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(tensor, {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}[operation])
    return tensor


def extremes(
    values: Float[Tensor, "*tokens"], valid: Bool[Tensor, "*tokens"], reduce: Reduce = this_process
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the smallest and the largest valid value, as 0-d tensors; `inf` and `-inf` when nothing is valid."""
    highest = torch.stack([torch.where(valid, x, -torch.inf).amax() for x in (-values, values)])
    negated_low, high = reduce(highest, "max")
    return -negated_low, high


def quantile(
    values: Float[Tensor, "*tokens"], valid: Bool[Tensor, "*tokens"], q: float, reduce: Reduce = this_process
) -> Float32[Tensor, ""]:
    """Return the `q`-quantile of the valid values, as a 0-d tensor; `inf` when nothing is valid.

    It is the order statistic below the quantile's position, not an interpolation: `value > quantile` selects the same
    tokens either way. `torch.quantile` fails above 2^24 elements, and knows one rank only.
    """
    count = int(reduce(valid.sum(), "sum"))
    return kth_largest(values, valid, count - math.floor(q * (count - 1)) if count else 0, reduce)


def top_threshold(
    values: Float[Tensor, "*tokens"], valid: Bool[Tensor, "*tokens"], fraction: float, reduce: Reduce = this_process
) -> Float32[Tensor, ""]:
    """Return the smallest of the top `fraction` of the valid values, as a 0-d tensor; `inf` when that is none.

    That is `ceil(fraction * n)` values and at least one, as in STARE's released code; none for a fraction of 0.
    """
    count = int(reduce(valid.sum(), "sum"))
    # 1e-6 is the released code's guard: it keeps 0.07 * 100 = 7.000000000000001 from counting as 8.
    k = min(count, max(1, math.ceil(fraction * count - 1e-6))) if fraction > 0 else 0
    return kth_largest(values, valid, k, reduce)


def kth_largest(
    values: Float[Tensor, "*tokens"], valid: Bool[Tensor, "*tokens"], k: int, reduce: Reduce = this_process
) -> Float32[Tensor, ""]:
    """Return the `k`-th largest of the valid values, as a 0-d tensor; `inf` for `k = 0`. `k` is the same on all ranks.

    Selected exactly, by counting: four rounds, each fixes 8 of the 32 bits and reduces 256 counts. The bits of a
    float32, suitably flipped, are ordered as the numbers are.
    """
    bits = (values.float() + 0.0).view(torch.int32).long()  # + 0.0: there is one zero
    keys = torch.where(bits < 0, -1 - bits, bits + 2**31)
    chosen = torch.zeros((), dtype=torch.long, device=values.device)
    remaining = torch.tensor(k, device=values.device)
    for shift in (24, 16, 8, 0):
        candidate = valid & (keys >> (shift + 8) == chosen)
        digits = torch.where(candidate, (keys >> shift) & 255, 256)
        counts = reduce(torch.bincount(digits.flatten(), minlength=257)[:256], "sum")
        at_least = counts.flip(0).cumsum(0).flip(0)  # values with this digit or a larger one
        digit = ((at_least >= remaining).sum() - 1).clamp(min=0)
        remaining = remaining - (at_least[digit] - counts[digit])
        chosen = chosen * 256 + digit
    bits = torch.where(chosen < 2**31, -1 - chosen, chosen - 2**31)
    threshold = bits.to(torch.int32).view(torch.float32)
    return threshold if k else torch.full_like(threshold, torch.inf)
