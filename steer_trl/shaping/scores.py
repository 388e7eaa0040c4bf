"""What the rollout's methods share: which completions are correct, and z-scores inside a group."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.batch import Rollout


def is_right(rollout: Rollout, args: ShapingConfig) -> Bool[Tensor, "N"]:
    """Whether each completion's reward is above `correct_threshold` `[N]`. False where nothing could score it."""
    return rollout.rewards > args.correct_threshold


def standardized(values: Float[Tensor, "N *T"], group_size: int, eps: float) -> Float[Tensor, "N *T"]:
    """Return (x - mean) / (std + eps) inside each group of `group_size` rows `[N]` or `[N, T]`, over all its numbers.

    The deviation is the unbiased one. NaN is left out and comes back as 0, and so does a group of equal numbers.
    """
    grouped = values.view(len(values) // group_size, -1)
    count, centred = (~grouped.isnan()).sum(1, keepdim=True), grouped - grouped.nanmean(1, keepdim=True)
    std = (centred.square().nanmean(1, keepdim=True) * (count / (count - 1))).sqrt()  # NaN for a group of one
    scores = centred / (std + eps)
    # Below float32's resolution a deviation is rounding, which dividing by it would blow up.
    differs = std > 1e-6 * grouped.abs().nan_to_num(0.0).amax(1, keepdim=True)
    return torch.where(differs & ~scores.isnan(), scores, 0.0).view(values.shape)
