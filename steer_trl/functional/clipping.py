"""The clip indicator of PPO's surrogate: which tokens get no gradient because their ratio has moved far enough."""

from jaxtyping import Bool, Float
from torch import Tensor


def clipped(
    ratio: Float[Tensor, "*#shape"],
    advantages: Float[Tensor, "*#shape"],
    low: Float[Tensor, "*#shape"] | float,
    high: Float[Tensor, "*#shape"] | float,
) -> tuple[Bool[Tensor, "*#shape"], Bool[Tensor, "*#shape"]]:
    """Return where `A < 0 and r < low`, and where `A > 0 and r > high`, as boolean tensors.

    Args:
        ratio (`torch.Tensor`): importance ratios r.
        advantages (`torch.Tensor`): of a shape that broadcasts with it.
        low, high (`torch.Tensor` or `float`): bounds of the ratio, `1 - epsilon_low` and `1 + epsilon_high` in PPO.
    """
    return (advantages < 0) & (ratio < low), (advantages > 0) & (ratio > high)
