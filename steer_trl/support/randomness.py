"""Draws random numbers that leave the global random state alone and do not depend on how a batch is split."""

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
from torch import Tensor


def keep_random_state(device: torch.device) -> AbstractContextManager[None]:
    """Restore the random state of the CPU and of `device` at the end of the `with` block."""
    return torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type)


@contextmanager
def keep_every_random_state(device: torch.device) -> Iterator[None]:
    """Restore the random states of Python, NumPy, the CPU and `device` at the end of the `with` block."""
    of_python = random.getstate()
    of_numpy = np.random.get_state()
    try:
        with keep_random_state(device):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)


def draw_uniform(seed: int, part: int, rows: Tensor, width: int) -> Tensor:
    """Return numbers in [0, 1) of shape `[len(rows), width]`, float32, on the device of `rows`.

    Each number depends only on the seed, the row number in the rollout, the token's position and `part`, the number of
    parts of rollouts trained on before. A part is what one optimizer step takes from one rollout.
    A larger `width` only appends numbers to each row, so padding does not change the numbers of the tokens. A resumed
    run draws the same numbers without a saved state.
    """
    draws = [np.random.default_rng([seed, part, row]).random(width, dtype=np.float32) for row in rows.tolist()]
    return torch.from_numpy(np.stack(draws)).to(rows.device)
