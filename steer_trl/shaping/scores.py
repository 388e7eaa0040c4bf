"""Helpers for methods that act on rollouts.

They find correct completions and standardize values within groups.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import CorrectnessSettings
from steer_trl.shaping.batch import Rollout


def deciding_rewards(rollout: Rollout) -> Float[Tensor, "N"]:
    """Return the rewards `[N]` that decide whether a completion is correct; NaN for a completion without one.

    A rollout without them has one reward function, whose rewards decide.
    """
    return rollout.rewards if rollout.deciding_rewards is None else rollout.deciding_rewards


def is_right(rollout: Rollout, args: CorrectnessSettings) -> Bool[Tensor, "N"]:
    """Return the mask `[N]` of the completions whose reward by `correct_reward` is above `correct_threshold`.

    It is false for a completion without that reward.
    """
    return deciding_rewards(rollout) > args.correct_threshold


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
