"""Helpers for methods that act on rollouts.

They find correct completions and standardize values within groups.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import CorrectnessOptions
from steer_trl.shaping.batch import Rollout


def is_right(rollout: Rollout, args: CorrectnessOptions) -> Bool[Tensor, "N"]:
    """Return the mask `[N]` of the completions whose reward is above `correct_threshold`.

    It is false for a completion without a reward.
    """
    return rollout.rewards > args.correct_threshold


def standardize(values: Float[Tensor, "N *T"], group_size: int, eps: float) -> Float[Tensor, "N *T"]:
    """Return (x - mean) / (std + eps) within each group of `group_size` rows, in the shape of `values`.

    The mean and the standard deviation (with divisor n - 1) are over all values of the group that are not NaN. The
    result is 0 for NaN values, and for all values of a group whose values are equal.
    """
    grouped = values.view(len(values) // group_size, -1)
    count = (~grouped.isnan()).sum(1, keepdim=True)
    centred = grouped - grouped.nanmean(1, keepdim=True)
    # The standard deviation of a single value is NaN.
    std = (centred.square().nanmean(1, keepdim=True) * (count / (count - 1))).sqrt()
    scores = centred / (std + eps)
    # A standard deviation below float32's resolution is a rounding error, which the division would magnify.
    differs = std > 1e-6 * grouped.abs().nan_to_num(0.0).amax(1, keepdim=True)
    return torch.where(differs & ~scores.isnan(), scores, 0.0).view(values.shape)
