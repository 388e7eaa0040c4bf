"""Helpers of the methods that act on rollouts: they find correct completions and standardize within groups."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import CorrectnessOptions
from steer_trl.shaping.batch import Rollout


def is_right(rollout: Rollout, args: CorrectnessOptions) -> Bool[Tensor, "N"]:
    """Return a mask `[N]`: true if the reward is above `correct_threshold`, false if it is not or is missing."""
    return rollout.rewards > args.correct_threshold


def standardize(values: Float[Tensor, "N *T"], group_size: int, eps: float) -> Float[Tensor, "N *T"]:
    """Return (x - mean) / (std + eps) within each group of `group_size` rows, in the shape of `values`.

    Mean and unbiased deviation are over all numbers of the group except NaN. The result is 0 for NaN and in a group of
    equal numbers.
    """
    grouped = values.view(len(values) // group_size, -1)
    count = (~grouped.isnan()).sum(1, keepdim=True)
    centred = grouped - grouped.nanmean(1, keepdim=True)
    # The deviation of a group with a single number is NaN.
    std = (centred.square().nanmean(1, keepdim=True) * (count / (count - 1))).sqrt()
    scores = centred / (std + eps)
    # A deviation below float32's resolution is rounding error, which the division would blow up.
    differs = std > 1e-6 * grouped.abs().nan_to_num(0.0).amax(1, keepdim=True)
    return torch.where(differs & ~scores.isnan(), scores, 0.0).view(values.shape)
