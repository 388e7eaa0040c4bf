"""The clip indicator of PPO's surrogate loss.

A marked token gets no gradient, because its ratio has moved too far.
"""

from jaxtyping import Bool, Float
from torch import Tensor


def find_clipped(
    ratio: Float[Tensor, "*#shape"],
    advantages: Float[Tensor, "*#shape"],
    low: Float[Tensor, "*#shape"] | float,
    high: Float[Tensor, "*#shape"] | float,
) -> tuple[Bool[Tensor, "*#shape"], Bool[Tensor, "*#shape"]]:
    """Return the masks of the tokens that are clipped at the `low` and at the `high` bound of the ratio.

    A token is clipped at `low` if its advantage is negative and its ratio is below `low`. It is clipped at `high` if
    its advantage is positive and its ratio is above `high`. In PPO the bounds are 1 - epsilon and 1 + epsilon.
    """
    too_low = (advantages < 0) & (ratio < low)
    too_high = (advantages > 0) & (ratio > high)
    return too_low, too_high
