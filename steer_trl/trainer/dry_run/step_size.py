"""The size of a step of Adam, compared with the weights that it changes.

With Adam, a step moves each weight by about the learning rate. Compared with a matrix of weights W,

    step_size = rate / rms(W)                       how far a weight moves, over its size
    change    = step_size * sqrt(rank(W)) / 2       how far an output moves at most, over its size
    precision = step_size / half the spacing        below 1, most weights are rounded back to what they were

A step that has the same sign everywhere has the spectral norm rate * sqrt(rows * columns), and a random matrix has
rms * (sqrt(rows) + sqrt(columns)). Their quotient lies between `change` and twice `change`, with the smaller side as
the rank. So the same rate destroys a wide model and not a narrow one.

Matrices of zeros, such as B of LoRA, are left out: their weights are as large as the steps make them. They also learn
at any precision.
"""

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steer_trl.trainer.dry_run.number_names import CHANGE, PRECISION, STEP_SIZE

ADAM = re.compile("Adam|Lion")
"""Matches the names of optimizers whose steps are about as large as the learning rate."""
HALF_SPACING = {torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}
"""Half the distance of a number to the next one, over the number."""


@torch.no_grad()
def measure_step(trainer: Any, peak: float) -> dict[str, float]:
    """Return the numbers of this module, at `peak` times the learning rates that were set.

    They are unknown with another optimizer, and where DeepSpeed or FSDP keeps the weights in parts.
    """
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    is_sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    if is_sharded or not ADAM.search(type(optimizer).__name__):
        return {}
    matrices = [
        (peak * group.get("initial_lr", group["lr"]), weights)
        for group in optimizer.param_groups
        for weights in group["params"]
        if weights.requires_grad and weights.dim() > 1 and weights.is_floating_point()
    ]
    sizes = [(rate / rms, weights) for rate, weights in matrices if (rms := root_mean_square(weights)) > 0]
    if not sizes or not all(size > 0 for size, _ in sizes):
        return {}
    changes = [size * min(len(weights), weights[0].numel()) ** 0.5 / 2 for size, weights in sizes]
    numbers = {STEP_SIZE: float(np.median([size for size, _ in sizes])), CHANGE: float(np.median(changes))}
    if len(sizes) == len(matrices) and all(weights.dtype in HALF_SPACING for _, weights in sizes):
        numbers[PRECISION] = float(np.median([size / HALF_SPACING[weights.dtype] for size, weights in sizes]))
    return numbers


def root_mean_square(weights: Tensor) -> float:
    """Return the root mean square of `weights`; 0 if there are none."""
    return weights.float().square().mean().sqrt().item() if weights.numel() else 0.0
