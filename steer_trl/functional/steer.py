"""STEER, arXiv 2510.10150: the entropy change of a token (Eq. 6, 9) and what weight it gets for it (Eq. 10)."""

import torch
from jaxtyping import Bool, Float, Float32, Shaped
from torch import Tensor

from steer_trl.functional import order_statistics
from steer_trl.functional.clipping import clipped
from steer_trl.functional.order_statistics import Reduce, this_process
from steer_trl.validation import in_intervals, one_of, refuse

FORMS = ("paper", "released", "exact")
MAPPINGS = ("exponential", "linear", "binary")
RANGES = {"lambda_min": "(0, 1]", "lambda_max": "(0, inf)", "quantile": "[0, 1]", "floor": "[0, inf)"}


def entropy_change(
    logps: Float[Tensor, "B T"],
    old_logps: Float[Tensor, "B T"],
    entropies: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B"] | Float[Tensor, "B 1"] | Float[Tensor, "B T"],
    *,
    form: str = "paper",
    epsilon_low: float = 0.2,
    epsilon_high: float = 0.2,
    log_ratio: Float[Tensor, "B 1"] | Float[Tensor, "B T"] | None = None,
    sensitivities: Float[Tensor, "B T"] | None = None,
) -> Float32[Tensor, "B T"]:
    r"""Return the entropy change that one gradient step on each token causes, with the learning rate dropped.

    `form="paper"` is STEER's Eq. 9 in its single-sample form, with the clip indicator of Eq. 6:

        Omega = - I_clip r A (1 - pi)^2 (ln pi + H)
        I_clip = 0 where (A > 0 and r > 1 + epsilon_high) or (A < 0 and r < 1 - epsilon_low), else 1

    `form="released"` is the authors' code: one factor (1 - pi) instead of two, no indicator, pi and the old
    probability not below 1e-8.

        Omega = - (A / q) pi (1 - pi) (ln pi + H)

    `form="exact"` estimates nothing: it is the derivative of the token's entropy along the step, all of the vocabulary
    considered, with the same indicator and ratio.

        Omega = - I_clip r A Phi

    Args:
        logps (`torch.Tensor` of shape `[B, T]`): current log-probabilities, nats.
        old_logps (`torch.Tensor` of shape `[B, T]`): log-probabilities at rollout time, nats.
        entropies (`torch.Tensor` of shape `[B, T]`): next-token entropies, nats.
        advantages (`torch.Tensor` of shape `[B]`, `[B, 1]` or `[B, T]`).
        form (`str`): `"paper"`, `"released"` or `"exact"`.
        epsilon_low (`float`), epsilon_high (`float`): clip range of the surrogate loss; `inf` for a loss that does
            not clip. The released form does not read them.
        log_ratio (`torch.Tensor` of shape `[B, T]` or `[B, 1]`, *optional*): ln r, for a loss whose ratio is not the
            token's own `logps - old_logps`. The released form does not read it.
        sensitivities (`torch.Tensor` of shape `[B, T]`, *optional*): Phi of each token,
            [`entropy_sensitivity_without_logits`]; the exact form reads them, and no other.

    Returns:
        `torch.Tensor` of shape `[B, T]`: Omega, float32; NaN where an input is not finite.

    Raises:
        `ValueError`: unknown `form`; the exact form without `sensitivities`, or another with them.
    """
    refuse(one_of("form", form, FORMS), "entropy_change")
    refuse(_sensitivity_complaints(form, sensitivities), "entropy_change")
    lp, lq, entropy, advantage = (x.detach().float() for x in (logps, old_logps, entropies, advantages))
    advantage = advantage.unsqueeze(1) if advantage.dim() == 1 else advantage
    if form != "released":
        phi = torch.expm1(lp).square() * (lp + entropy) if sensitivities is None else sensitivities.detach().float()
        ratio = torch.exp(lp - lq if log_ratio is None else log_ratio.detach().float())
        too_low, too_high = clipped(ratio, advantage, 1 - epsilon_low, 1 + epsilon_high)
        omega = torch.where(too_low | too_high, 0.0, -ratio * advantage * phi)
    else:
        pi, q = lp.exp().clamp(min=1e-8), lq.exp().clamp(1e-8, 1.0)
        omega = -(advantage / q) * pi * (1 - pi) * (pi.log() + entropy)
    finite = lp.isfinite() & lq.isfinite() & entropy.isfinite()
    return torch.where(finite, omega, torch.nan)


def _sensitivity_complaints(form: str, sensitivities: Tensor | None) -> list[str]:
    if form == "exact" and sensitivities is None:
        return ["sensitivities must be given with form='exact', got None: see entropy_sensitivity_without_logits."]
    if form != "exact" and sensitivities is not None:
        return [f"sensitivities cannot be combined with form={form!r}, which would ignore them. Use form='exact'."]
    return []


def steer_statistic(
    omega: Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    *,
    mapping: str = "exponential",
    quantile: float = 0.8,
    signed: bool = False,
    reduce: Reduce = this_process,
) -> Float32[Tensor, "2"]:
    r"""Return what STEER compares each token with: (min x, max x), in the binary mapping Q_quantile(x) twice.

    x is |Omega|, or Omega itself if `signed`. `reduce` takes in the tokens of the other ranks; see
    `steer_trl/functional/order_statistics.py`. The other arguments are as in [`steer_weights`].

    Returns:
        `torch.Tensor` of shape `[2]`: float32.
    """
    x, valid = _compared(omega, mask, signed)
    if mapping == "binary":
        threshold = order_statistics.quantile(x, valid, quantile, reduce)
        return torch.stack([threshold, threshold])
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
        omega (`torch.Tensor` of shape `[B, T]`): see [`entropy_change`].
        mask (`torch.Tensor` of shape `[B, T]`): 1 for tokens that count.
        lambda_min (`float`): smallest weight, in (0, 1]. The paper recommends 0.6 to 0.8; 1 is exactly GRPO.
        mapping (`str`): `"exponential"`, `"linear"` or `"binary"`.
        lambda_max (`float`): largest weight of the linear mapping, at least `lambda_min`.
        quantile (`float`): share of tokens that the binary mapping leaves alone, in [0, 1].
        signed (`bool`): let linear and binary read Omega with its sign, as the paper prints them; the authors' code
            takes |Omega|.
        floor (`float`): lower bound on max |Omega| in the exponential mapping; 0 in the paper, 0.02 in the code.
        statistic (`torch.Tensor` of shape `[2]`, *optional*): [`steer_statistic`] of the batch these tokens belong to;
            of these tokens alone by default. A token beyond it is treated as one that lies on it.
        tolerance (`float`): relative difference from the quantile below which the binary mapping takes x for equal.

    Returns:
        `torch.Tensor` of shape `[B, T]`: weights, float32; 1 off the mask and where Omega is not finite.

    Raises:
        `ValueError`: a setting outside its range.
    """
    given = {"lambda_min": lambda_min, "lambda_max": lambda_max, "quantile": quantile, "floor": floor}
    refuse([*one_of("mapping", mapping, MAPPINGS), *in_intervals(RANGES, **given)], "steer_weights")
    refuse(mapping_complaints(mapping, lambda_min, lambda_max, signed, floor), "steer_weights")
    x, valid = _compared(omega, mask, signed)
    if statistic is None:
        statistic = steer_statistic(omega, mask, mapping=mapping, quantile=quantile, signed=signed)
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
    mapping: str, lambda_min: float, lambda_max: float, signed: bool, floor: float, prefix: str = ""
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
    return complaints
