"""The clip indicator of PPO's surrogate: which tokens get no gradient because their ratio has moved far enough."""

from torch import Tensor


def clipped(ratio: Tensor, advantages: Tensor, low: Tensor | float, high: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return where `A < 0 and r < low`, and where `A > 0 and r > high`, as boolean tensors.

    Args:
        ratio (`torch.Tensor`): importance ratios r.
        advantages (`torch.Tensor`): of a shape that broadcasts with it.
        low, high (`torch.Tensor` or `float`): bounds of the ratio, `1 - epsilon_low` and `1 + epsilon_high` in PPO.
    """
    return (advantages < 0) & (ratio < low), (advantages > 0) & (ratio > high)
