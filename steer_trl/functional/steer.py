"""STEER, arXiv 2510.10150: token weights that fall with the size of the entropy change (Eq. 10)."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Shaped
from torch import Tensor

from steer_trl.functional import order_statistics
from steer_trl.functional.order_statistics import Reduce, this_process


class Range(NamedTuple):
    """The smallest and the largest entropy change x of [`steer_weights`], as 0-d tensors.

    In the binary mapping, both fields are the quantile of x.
    """

    low: Tensor
    high: Tensor


def steer_statistic(
    omega: Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    *,
    mapping: str = "exponential",
    quantile: float = 0.8,
    signed: bool = False,
    reduce: Reduce = this_process,
) -> Range:
    """Return the statistics that [`steer_weights`] needs.

    With `reduce=order_statistics.all_ranks`, they cover the tokens of all ranks.
    """
    x, valid = _select_compared(omega, mask, signed)
    if mapping == "binary":
        threshold = order_statistics.quantile(x, valid, quantile, reduce)
        return Range(threshold, threshold)
    return Range(*order_statistics.extremes(x, valid, reduce))


def _select_compared(omega: Tensor, mask: Tensor, signed: bool) -> tuple[Tensor, Tensor]:
    """Return the entropy changes x of [`steer_weights`] and the mask of the tokens that count, both `[B, T]`."""
    omega = omega.detach().float()
    return omega if signed else omega.abs(), mask.bool() & omega.isfinite()


def steer_weights(
    omega: Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    *,
    lambda_min: float = 0.8,
    mapping: str = "exponential",
    lambda_max: float = 1.2,
    quantile: float = 0.8,
    signed: bool = False,
    floor: float = 0.0,
    statistic: Range | None = None,
    tolerance: float = 0.0,
) -> Float32[Tensor, "B T"]:
    r"""Map entropy changes to STEER's token weights lambda: the larger the change, the smaller the weight.

        exponential   lambda = exp(-k |Omega|), k = -ln(lambda_min) / max |Omega|                         (Eq. 10)
        linear        lambda = lambda_max - (lambda_max - lambda_min) (x - min x) / (max x - min x)       (sec. 5)
        binary        lambda = lambda_min where x > Q_quantile(x), else 1                                 (sec. 5)

    with x = |Omega|, or Omega itself if `signed`. If all x are equal, the linear mapping gives its midpoint, as the
    authors' code does. Masked tokens, and tokens whose Omega is not finite, have the weight 1.

    Args:
        omega (`torch.Tensor` of shape `[B, T]`): entropy changes, from [`~steer_trl.functional.entropy_change`].
        mask (`torch.Tensor` of shape `[B, T]`): 1 for tokens that count.
        lambda_min (`float`): smallest weight, in (0, 1]. The paper recommends 0.6 to 0.8; 1 is exactly GRPO.
        mapping (`str`): `"exponential"`, `"linear"` or `"binary"`.
        lambda_max (`float`): largest weight of the linear mapping, at least `lambda_min`.
        quantile (`float`): share of tokens that the binary mapping leaves unchanged, in [0, 1].
        signed (`bool`): let the linear and the binary mapping read Omega with its sign, as the paper prints them; the
            authors' code takes |Omega|.
        floor (`float`): lower bound on max |Omega| in the exponential mapping: 0 in the paper, 0.02 in its code.
        statistic (`Range`, *optional*): the result of [`steer_statistic`] for the batch that these tokens
            belong to; by default, for these tokens alone. An x outside the range is clipped to it.
        tolerance (`float`): relative margin above the quantile within which the binary mapping still
            counts x as equal to it.
    """
    x, valid = _select_compared(omega, mask, signed)
    if statistic is None:
        statistic = steer_statistic(omega, mask, mapping=mapping, quantile=quantile, signed=signed)
    low, high = statistic
    if mapping == "exponential":
        scale = high.clamp(min=floor)
        # lambda_min ** (x / scale) is exp(-k |Omega|), and is exactly lambda_min at x = scale.
        weights = (lambda_min ** torch.where(scale > 0, x / scale, 0.0)).clamp(lambda_min, 1.0)
    elif mapping == "linear":
        share = torch.where(high > low, (x - low) / (high - low), 0.5)
        weights = (lambda_max - (lambda_max - lambda_min) * share).clamp(lambda_min, lambda_max)
    else:
        weights = torch.where(x > high + tolerance * high.abs(), lambda_min, 1.0)
    return torch.where(valid, weights, 1.0)
