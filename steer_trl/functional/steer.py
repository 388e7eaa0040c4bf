"""STEER, arXiv 2510.10150: what weight a token gets for its entropy change (Eq. 10)."""

import torch
from jaxtyping import Bool, Float, Float32, Shaped
from torch import Tensor

from steer_trl.functional import order_statistics
from steer_trl.functional.order_statistics import Reduce, this_process
from steer_trl.validation import in_intervals, one_of, refuse

MAPPINGS = ("exponential", "linear", "binary")
RANGES = {
    "lambda_min": "(0, 1]",
    "lambda_max": "(0, inf)",
    "quantile": "[0, 1]",
    "floor": "[0, inf)",
    "scale_quantile": "(0, 1]",
}


def steer_statistic(
    omega: Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    *,
    mapping: str = "exponential",
    quantile: float = 0.8,
    signed: bool = False,
    scale_quantile: float = 1.0,
    reduce: Reduce = this_process,
) -> Float32[Tensor, "2"]:
    r"""Return what STEER compares each token with: (min x, max x), in the binary mapping Q_quantile(x) twice.

    x is |Omega|, or Omega itself if `signed`. With a `scale_quantile` below 1 the exponential mapping has that
    quantile of the x > 0 in the place of both, and 0 if there are none. `reduce` takes in the tokens of the other
    ranks; see `steer_trl/functional/order_statistics.py`. The other arguments are as in [`steer_weights`].

    Returns:
        `torch.Tensor` of shape `[2]`: float32.
    """
    x, valid = _compared(omega, mask, signed)
    if mapping == "binary":
        threshold = order_statistics.quantile(x, valid, quantile, reduce)
        return torch.stack([threshold, threshold])
    if mapping == "exponential" and scale_quantile < 1:
        scale = order_statistics.quantile(x, valid & (x > 0), scale_quantile, reduce)
        return torch.where(scale.isfinite(), scale, 0.0).expand(2)
    return torch.stack(order_statistics.extremes(x, valid, reduce))


def _compared(
    omega: Float[Tensor, "B T"], mask: Shaped[Tensor, "B T"], signed: bool
) -> tuple[Float32[Tensor, "B T"], Bool[Tensor, "B T"]]:
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
    scale_quantile: float = 1.0,
    statistic: Float[Tensor, "2"] | None = None,
    tolerance: float = 0.0,
) -> Float32[Tensor, "B T"]:
    r"""Map entropy changes to STEER's token weights lambda: the larger the change, the smaller the weight.

        exponential   lambda = exp(-k |Omega|), k = -ln(lambda_min) / max |Omega|                         (Eq. 10)
        linear        lambda = lambda_max - (lambda_max - lambda_min) (x - min x) / (max x - min x)       (sec. 5)
        binary        lambda = lambda_min where x > Q_quantile(x), else 1                                 (sec. 5)

    with x = |Omega|, or Omega itself if `signed`. The token with the largest |Omega| gets exactly `lambda_min` in the
    exponential mapping. Where all x are equal the linear mapping gives its midpoint, as the authors' code does.

    Args:
        omega (`torch.Tensor` of shape `[B, T]`): see [`~steer_trl.functional.entropy_change`].
        mask (`torch.Tensor` of shape `[B, T]`): 1 for tokens that count.
        lambda_min (`float`): smallest weight, in (0, 1]. The paper recommends 0.6 to 0.8; 1 is exactly GRPO.
        mapping (`str`): `"exponential"`, `"linear"` or `"binary"`.
        lambda_max (`float`): largest weight of the linear mapping, at least `lambda_min`.
        quantile (`float`): share of tokens that the binary mapping leaves alone, in [0, 1].
        signed (`bool`): let linear and binary read Omega with its sign, as the paper prints them; the authors' code
            takes |Omega|.
        floor (`float`): lower bound on max |Omega| in the exponential mapping; 0 in the paper, 0.02 in the code.
        scale_quantile (`float`): the quantile of the |Omega| that are not 0 in the place of their maximum in the
            exponential mapping, in (0, 1]: tokens beyond it get `lambda_min` as well. 1 in the paper and the code.
        statistic (`torch.Tensor` of shape `[2]`, *optional*): [`steer_statistic`] of the batch these tokens belong to;
            of these tokens alone by default. A token beyond it is treated as one that lies on it.
        tolerance (`float`): relative difference from the quantile below which the binary mapping takes x for equal.

    Returns:
        `torch.Tensor` of shape `[B, T]`: weights, float32; 1 off the mask and where Omega is not finite.

    Raises:
        `ValueError`: a setting outside its range.
    """
    given = {"lambda_min": lambda_min, "lambda_max": lambda_max, "quantile": quantile, "floor": floor}
    given["scale_quantile"] = scale_quantile
    refuse([*one_of("mapping", mapping, MAPPINGS), *in_intervals(RANGES, **given)], "steer_weights")
    refuse(mapping_complaints(mapping, lambda_min, lambda_max, signed, floor, scale_quantile), "steer_weights")
    x, valid = _compared(omega, mask, signed)
    if statistic is None:
        statistic = steer_statistic(
            omega, mask, mapping=mapping, quantile=quantile, signed=signed, scale_quantile=scale_quantile
        )
    low, high = statistic
    if mapping == "exponential":
        scale = high.clamp(min=floor)
        # lambda_min ** share is exp(-k |Omega|), and it is exact at share = 1.
        weights = lambda_min ** torch.where(scale > 0, x / scale, 0.0)
        weights = weights.clamp(lambda_min, 1.0)
    elif mapping == "linear":
        share = torch.where(high > low, (x - low) / (high - low), 0.5)
        weights = (lambda_max - (lambda_max - lambda_min) * share).clamp(lambda_min, lambda_max)
    else:
        weights = torch.where(x > high + tolerance * high.abs(), lambda_min, 1.0)
    return torch.where(valid, weights, 1.0)


def mapping_complaints(
    mapping: str,
    lambda_min: float,
    lambda_max: float,
    signed: bool,
    floor: float,
    scale_quantile: float,
    prefix: str = "",
) -> list[str]:
    """Say which settings of [`steer_weights`] its mapping cannot work with; `prefix` goes before each name."""
    complaints = []
    if mapping == "linear" and lambda_max < lambda_min:
        complaints.append(
            f"{prefix}lambda_max must be in [{lambda_min}, inf), got {lambda_max!r}: the linear mapping falls from "
            f"{prefix}lambda_max to {prefix}lambda_min."
        )
    if mapping == "exponential" and signed:
        complaints.append(
            f"{prefix}signed=True cannot be combined with {prefix}mapping='exponential': Eq. 10 is a function of "
            f"|Omega|, so the sign would be ignored. Use {prefix}mapping='linear' or 'binary', or leave "
            f"{prefix}signed unset."
        )
    if mapping != "exponential" and floor:
        complaints.append(
            f"{prefix}floor={floor!r} cannot be combined with {prefix}mapping={mapping!r}: only the exponential "
            f"mapping divides by the largest |Omega|, so the floor would be ignored. Leave {prefix}floor unset."
        )
    if mapping != "exponential" and scale_quantile != 1:
        complaints.append(
            f"{prefix}scale_quantile={scale_quantile!r} cannot be combined with {prefix}mapping={mapping!r}: only the "
            f"exponential mapping divides by one number, so it would be ignored. Leave {prefix}scale_quantile unset."
        )
    return complaints
