"""Order statistics over the valid tokens of a batch. The methods compare single tokens with them.

`values` holds one number for each token of this process. With [`all_ranks`] as `reduce`, a statistic includes the
tokens of the other ranks. With [`this_process`] it does not. Every function ignores tokens that are not `valid`, and
calls `reduce` the same number of times on every rank, with tensors whose size does not depend on the number of tokens.
If there is no valid token, the function returns a neutral value, because the tokens of a rank can all be masked.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Float32, Shaped
from torch import Tensor

from steer_trl.support.precision import to_double

Reduce = Callable[[Tensor, str], Tensor]


def this_process(tensor: Shaped[Tensor, "*size"], operation: str) -> Shaped[Tensor, "*size"]:
    """Return `tensor` unchanged, so that a statistic is over the tokens of this process only."""
    return tensor


def all_ranks(tensor: Shaped[Tensor, "*size"], operation: str) -> Shaped[Tensor, "*size"]:
    """Reduce `tensor` in place over all ranks with the `operation` `"sum"` or `"max"`. Collective."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(tensor, {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}[operation])
    return tensor


def extremes(
    values: Float[Tensor, "*tokens"], valid: Bool[Tensor, "*tokens"], reduce: Reduce = this_process
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the smallest and the largest valid value, as 0-d tensors; `inf` and `-inf` if there is none."""
    negated_lowest = torch.where(valid, -values, -torch.inf).amax()
    highest = torch.where(valid, values, -torch.inf).amax()
    negated_low, high = reduce(torch.stack([negated_lowest, highest]), "max")
    return -negated_low, high


def quantile(
    values: Float[Tensor, "*tokens"], valid: Bool[Tensor, "*tokens"], q: float, reduce: Reduce = this_process
) -> Float32[Tensor, ""]:
    """Return the `q`-quantile of the valid values, as a 0-d tensor; `inf` if there is none.

    The result is not interpolated. It is the order statistic below the quantile's position, and `value > quantile`
    selects the same tokens either way. `torch.quantile` fails above 2^24 elements and sees only one rank.
    """
    count = reduce(valid.sum(), "sum")
    position = q * (to_double(count) - 1)
    below = position.floor().long().to(count.device)
    return kth_largest(values, valid, (count - below).clamp(max=count), reduce)


def top_threshold(
    values: Float[Tensor, "*tokens"], valid: Bool[Tensor, "*tokens"], fraction: float, reduce: Reduce = this_process
) -> Float32[Tensor, ""]:
    """Return the smallest value in the top `fraction` of the valid values, as a 0-d tensor.

    The top `fraction` of n values has `ceil(fraction * n)` values and at least one, as in STARE's released code. With
    a fraction of 0 it has none. The result is `inf` if there is no such value.
    """
    count = reduce(valid.sum(), "sum")
    if fraction <= 0:
        return kth_largest(values, valid, torch.zeros_like(count), reduce)
    # 1e-6 is the released code's guard: it keeps 0.07 * 100 = 7.000000000000001 from counting as 8.
    top = (fraction * to_double(count) - 1e-6).ceil().long().to(count.device)
    return kth_largest(values, valid, top.clamp(min=1).minimum(count), reduce)


def kth_largest(
    values: Float[Tensor, "*tokens"], valid: Bool[Tensor, "*tokens"], k: int | Tensor, reduce: Reduce = this_process
) -> Float32[Tensor, ""]:
    """Return the `k`-th largest of the valid values, as a 0-d tensor; `inf` for `k = 0`.

    `k` must be the same on all ranks.

    The value is found exactly, by counting. Each of four rounds determines 8 of its 32 bits and reduces 256 counts.
    The bits of float32 numbers, suitably flipped, sort as the numbers do. The host never waits for the device, because
    it reads no value. The counts are added by `scatter_add_`, because `bincount` would wait.
    """
    # Adding 0.0 turns -0.0 into 0.0.
    bits = (values.float() + 0.0).view(torch.int32).long()
    keys = torch.where(bits < 0, -1 - bits, bits + 2**31)
    prefix = torch.zeros((), dtype=torch.long, device=values.device)
    rank = k if isinstance(k, Tensor) else torch.full((), k, dtype=torch.long, device=values.device)
    remaining = rank
    for shift in (24, 16, 8, 0):
        candidate = valid & (keys >> (shift + 8) == prefix)
        digits = torch.where(candidate, (keys >> shift) & 255, 256).flatten()
        bins = torch.zeros(257, dtype=torch.long, device=values.device)
        bins.scatter_add_(0, digits, torch.ones_like(digits))
        counts = reduce(bins[:256].clone(), "sum")
        # For each digit from 0 to 255: the number of candidates with that digit or a larger one.
        at_least = counts.flip(0).cumsum(0).flip(0)
        digit = ((at_least >= remaining).sum() - 1).clamp(min=0).unsqueeze(0)
        above = at_least.gather(0, digit) - counts.gather(0, digit)
        remaining = remaining - above.squeeze(0)
        prefix = prefix * 256 + digit.squeeze(0)
    bits = torch.where(prefix < 2**31, -1 - prefix, prefix - 2**31)
    threshold = bits.to(torch.int32).view(torch.float32)
    return torch.where(rank > 0, threshold, torch.inf)
