"""Warns once if rounding gives a group of equal rewards an advantage.

    advantage_i = (r_i - mean) / (std + 1e-4)

TRL computes this in float32. If all rewards of a group are 12345.67, their mean is 0.001 away from them, and so is
their standard deviation. Every completion then has an advantage of -0.85, although no reward differs. Whole numbers up
to a million have exact means.
"""

import logging

import torch
from torch import Tensor
from trl.trainer.utils import nanstd

from steer_trl.trainer.correctness import total_reward
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)

OF_TRL = 1e-4
"""TRL adds this to the standard deviation of a group."""
NEGLIGIBLE = 0.05
"""Advantages up to this size are not reported."""
EVERY = 8
"""The first of so many rollouts is read, because reading waits for the device."""


class RoundedRewards:
    """Looks for groups whose rewards are equal and whose advantages are not 0."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer
        self._is_done = False
        self._rollouts = 0

    def read(self, rewards_per_function: Tensor) -> None:
        """Warn if a group of the rollout has such advantages.

        `rewards_per_function` `[N, functions]` are those of all ranks.
        """
        trainer = self._trainer
        is_read = self._rollouts % EVERY == 0
        self._rollouts += 1
        # A subclass may have other rewards.
        is_of_groups = rewards_per_function.dim() == 2 and len(rewards_per_function) % trainer.num_generations == 0
        if not is_read or self._is_done or trainer.args.scale_rewards != "group" or not is_of_groups:
            return
        is_summed = trainer.args.multi_objective_aggregation == "sum_then_normalize"
        columns = [total_reward(trainer, rewards_per_function)] if is_summed else rewards_per_function.unbind(1)
        for rewards in columns:
            rewards_of_groups = rewards.view(-1, trainer.num_generations)
            size = find_false_advantage(rewards_of_groups)
            if size > NEGLIGIBLE:
                self._is_done = True
                if trainer.accelerator.is_main_process:
                    logger.warning(
                        "rewards of up to %g are too large for float32: a group of equal rewards got advantages of "
                        "size %.2g from rounding alone. Divide the reward by a constant so that it stays below 10, or "
                        "round it to whole numbers. dynamic_sampling='resample' leaves such groups out.",
                        *(rewards.nan_to_num().abs().max().item(), size),
                    )
                return


def find_false_advantage(rewards: Tensor) -> float:
    """Return the largest size of an advantage in groups whose rewards `[groups, G]` are all equal, or 0."""
    spread = nanstd(rewards, dim=1)
    # Unscored completions are ignored, as in TRL.
    highest = torch.where(rewards.isnan(), -torch.inf, rewards).amax(1)
    lowest = torch.where(rewards.isnan(), torch.inf, rewards).amin(1)
    is_equal = (highest == lowest) & highest.isfinite()
    sizes = spread / (spread + OF_TRL)
    return torch.where(is_equal, sizes, 0.0).nan_to_num().max().item()
