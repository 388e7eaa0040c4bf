"""The clip indicator of PPO's surrogate: which tokens get no gradient because their ratio has moved far enough."""

from jaxtyping import Bool, Float
from torch import Tensor


def clipped(
    ratio: Float[Tensor, "*#shape"],
    advantages: Float[Tensor, "*#shape"],
    low: Float[Tensor, "*#shape"] | float,
    high: Float[Tensor, "*#shape"] | float,
) -> tuple[Bool[Tensor, "*#shape"], Bool[Tensor, "*#shape"]]:
    """Return where `A < 0 and r < low`, and where `A > 0 and r > high`: PPO's 1 - epsilon and 1 + epsilon."""
    return (advantages < 0) & (ratio < low), (advantages > 0) & (ratio > high)
