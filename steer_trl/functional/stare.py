"""STARE, arXiv 2606.19236: token weights by surprisal and by the sign of the advantage."""

from collections.abc import Collection
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Shaped
from torch import Tensor

from steer_trl.functional import order_statistics
from steer_trl.functional.order_statistics import Reduce, this_process
from steer_trl.validation import as_tuple

STARE_OPERATIONS = (
    "amplify_high_positive",
    "attenuate_low_positive",
    "amplify_low_negative",
    "attenuate_high_negative",
)
STARE_VARIANTS = {
    "O1": STARE_OPERATIONS[:1],
    "O2": STARE_OPERATIONS[1:2],
    "O3": STARE_OPERATIONS[2:3],
    "O4": STARE_OPERATIONS[3:],
    "C1": (STARE_OPERATIONS[0], STARE_OPERATIONS[2]),
    "C2": (STARE_OPERATIONS[0], STARE_OPERATIONS[3]),
    "C3": (STARE_OPERATIONS[1], STARE_OPERATIONS[2]),
    "C4": (STARE_OPERATIONS[1], STARE_OPERATIONS[3]),
}
NAMES = (*STARE_VARIANTS, *STARE_OPERATIONS)


class SurprisalLimits(NamedTuple):
    """The smallest surprisals in the sets L+ and L- of [`stare_weights`].

    Both are 0-d tensors in nats, and `inf` for an empty set.
    """

    positive: Tensor
    negative: Tensor


def stare_operations(variant: str | Collection[str]) -> tuple[str, ...]:
    """Return the operations of one or several variants. A variant is a name from the paper or an operation."""
    operations = [STARE_VARIANTS.get(name, (name,)) for name in as_tuple(variant)]
    return tuple(dict.fromkeys(operation for several in operations for operation in several))


def stare_statistic(
    logps: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B"] | Float[Tensor, "B 1"] | Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    *,
    top_fraction: float = 0.1,
    reduce: Reduce = this_process,
) -> SurprisalLimits:
    """Return the smallest surprisals in the sets L+ and L- of [`stare_weights`].

    With `reduce=order_statistics.all_ranks`, the sets contain the tokens of all ranks.
    """
    surprisal, *sides = _split_sides(logps, advantages, mask)
    return SurprisalLimits(*(order_statistics.top_threshold(surprisal, x, top_fraction, reduce) for x in sides))


def _split_sides(logps: Tensor, advantages: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the surprisals and the masks of tokens with positive and negative advantages, all `[B, T]`."""
    surprisal = -logps.detach().float()
    advantage = advantages.detach()
    advantage = advantage.unsqueeze(1) if advantage.dim() == 1 else advantage
    valid = mask.bool() & surprisal.isfinite()
    return surprisal, valid & (advantage > 0), valid & (advantage < 0)


def stare_weights(
    logps: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B"] | Float[Tensor, "B 1"] | Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    *,
    variant: str | Collection[str] = "O1",
    top_fraction: float = 0.1,
    amplify: float = 1.1,
    attenuate: float = 0.9,
    statistic: SurprisalLimits | None = None,
    tolerance: float = 0.0,
) -> Float32[Tensor, "B T"]:
    r"""Weight tokens by their surprisal and the sign of their advantage, as STARE does while its gate is open.

    T+ and T- are the tokens with A > 0 and A < 0. L+ and L- are the `top_fraction` of T+ and of T- with the largest
    surprisal -ln pi, and U+ and U- are the other tokens. That U+ and U- hold all other tokens is our reading, because
    the paper's choice is not public. Four operations raise the entropy. Each multiplies the advantages in one set by W
    (`amplify`) or M (`attenuate`), and has a name in the paper:

        amplify_high_positive     L+ by W    O1        attenuate_low_positive     U+ by M    O2
        amplify_low_negative      U- by W    O3        attenuate_high_negative    L- by M    O4

        C1 = O1 + O3    C2 = O1 + O4    C3 = O2 + O3    C4 = O2 + O4

    Public sources disagree on which operation is O2 and which is O3. The long names of the operations are unambiguous.
    Masked tokens, and tokens whose log-probability is not finite, have the weight 1.

    Args:
        logps (`torch.Tensor` of shape `[B, T]`): current log-probabilities, nats.
        advantages (`torch.Tensor` of shape `[B]`, `[B, 1]` or `[B, T]`): only the signs are read; tokens with an
            advantage of 0 are in no set.
        mask (`torch.Tensor` of shape `[B, T]`): 1 for tokens that count.
        variant (`str` or collection of `str`): one or several of the names above.
        top_fraction (`float`): P in [0, 1], rounded up to whole tokens, at least one token; 0 selects none.
        amplify (`float`): W, at least 1.
        attenuate (`float`): M, in (0, 1].
        statistic (`SurprisalLimits`, *optional*): the result of [`stare_statistic`] for the batch that these
            tokens belong to; by default, for these tokens alone.
        tolerance (`float`): a surprisal below the threshold by at most this, in nats, still counts as equal to it.
    """
    surprisal, *sides = _split_sides(logps, advantages, mask)
    if statistic is None:
        statistic = stare_statistic(logps, advantages, mask, top_fraction=top_fraction)
    highs = []
    lows = []
    for side, limit in zip(sides, statistic, strict=True):
        high = side & (surprisal >= limit - tolerance)
        highs.append(high)
        lows.append(side & ~high & limit.isfinite())
    sets = {
        "amplify_high_positive": (highs[0], amplify),
        "attenuate_low_positive": (lows[0], attenuate),
        "amplify_low_negative": (lows[1], amplify),
        "attenuate_high_negative": (highs[1], attenuate),
    }
    weights = torch.ones_like(surprisal)
    for operation in stare_operations(variant):
        chosen, weight = sets[operation]
        weights = torch.where(chosen, weight, weights)
    return weights
