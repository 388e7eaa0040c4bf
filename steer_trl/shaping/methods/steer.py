"""STEER, arXiv 2510.10150: damp the tokens whose update would change the entropy most.

    A_hat = lambda(|Omega|) * A,   Omega = - I_clip r A (1 - pi)^2 (ln pi + H)                                 (Eq. 9)
    lambda = exp(-k |Omega|),      k = -ln(lambda_min) / max |Omega|                                          (Eq. 10)

lambda can also be a linear or a binary function of |Omega|, as in the paper's ablation. The method slows both collapse
and explosion of the entropy, and needs no target. `steer_form="exact"` replaces this estimate of Omega with the exact
- I_clip r A Phi, which costs a second pass of the LM head. Use STARE instead to hold the entropy at a level that you
choose. The symbols are defined in `functional.py`.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float, Float32, Shaped
from torch import Tensor

from steer_trl.options.base import Setting
from steer_trl.options.methods import SteerSettings
from steer_trl.shaping import order_statistics
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.options import read_options
from steer_trl.shaping.order_statistics import Reduce, this_process
from steer_trl.shaping.sensitivity import released_entropy_change
from steer_trl.support.validation import check_interval

RELEASED_FLOOR = 0.02


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


@dataclass
class SteerOptions:
    """Options of `"steer"`."""

    lambda_max: Annotated[
        float,
        Setting("Largest weight, at least steer_lambda_min.", "(0, inf)", needs={"steer_mapping": "linear"}),
    ] = 1.2
    quantile: Annotated[float, Setting("Share of tokens left alone.", "[0, 1]", needs={"steer_mapping": "binary"})] = (
        0.8
    )
    signed: Annotated[
        bool,
        Setting(
            "Use the change with its sign, as the paper prints it; the authors' code takes |Omega|.",
            needs={"steer_mapping": ("linear", "binary")},
        ),
    ] = False


class Steer(Shaper[SteerSettings]):
    """STEER's token weights."""

    settings_class = SteerSettings
    options_class = SteerOptions
    options: SteerOptions
    paper = PAPERS["2510.10150"]

    def __init__(self, args: SteerSettings) -> None:
        super().__init__(args)
        if args.steer_form == "exact" and self.active:
            self.reads = ("sensitivities",)

    @classmethod
    def complaints(cls, args: SteerSettings) -> list[str]:
        """Return complaints about a rising linear mapping, or the released form without token ratios."""
        complaints = []
        if args.steer_mapping == "linear":
            least = f"[{args.steer_lambda_min}, inf)"
            largest = read_options(cls, args).lambda_max
            complaints += check_interval(
                "shaping_options.steer.lambda_max", largest, least, "the mapping falls from it"
            )
        if args.steer_form == "released" and args.importance_sampling_level != "token":
            complaints.append(
                "steer_form='released' cannot be combined with importance_sampling_level='sequence': the authors' "
                "code has token ratios only. Use steer_form='paper' or 'exact', which take the loss's ratio."
            )
        return complaints

    @property
    def active(self) -> bool:
        """False if every weight is 1: `lambda_min = 1`, and in the linear mapping also `lambda_max = 1`."""
        args = self.args
        return args.steer_lambda_min < 1 or (args.steer_mapping == "linear" and self.options.lambda_max > 1)

    def measure(self, batch: TokenBatch, reduce: Reduce) -> Range:
        """Return the extremes of the entropy changes, or their quantile in the binary mapping."""
        return steer_statistic(
            self._omega(batch),
            batch.mask,
            mapping=self.args.steer_mapping,
            quantile=self.options.quantile,
            signed=self.options.signed,
            reduce=reduce,
        )

    def weights(self, batch: TokenBatch, measure: Range) -> Float[Tensor, "B T"]:
        """Return the token weights lambda `[B, T]`."""
        args = self.args
        return steer_weights(
            self._omega(batch),
            batch.mask,
            lambda_min=args.steer_lambda_min,
            mapping=args.steer_mapping,
            lambda_max=self.options.lambda_max,
            signed=self.options.signed,
            floor=self.scale_floor,
            statistic=measure,
            tolerance=self.tolerance,
        )

    @property
    def scale_floor(self) -> float:
        """The lower bound on max |Omega| in the exponential mapping."""
        is_released = self.args.steer_form == "released" and self.args.steer_mapping == "exponential"
        return RELEASED_FLOOR if is_released else 0.0

    def _omega(self, batch: TokenBatch) -> Tensor:
        # The released form reads the entropies stored at rollout time.
        if self.args.steer_form == "released":
            return released_entropy_change(batch.logps, batch.old_logps, batch.old_entropies, batch.advantages)
        return batch.entropy_change(self.args.steer_form == "exact")
