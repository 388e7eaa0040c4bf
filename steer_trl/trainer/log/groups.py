"""Logs pass@k of a rollout's groups (`monitoring/groups.py`), over everything that was generated for it."""

import torch
from torch import Tensor

from steer_trl.monitoring.groups import measure_groups
from steer_trl.trainer.correctness import deciding_reward, is_decided
from steer_trl.trainer.log.guard import ignore_failure
from steer_trl.trainer.trl import GRPOTrainer, append_to_log


def log_groups(trainer: GRPOTrainer, rewards_per_function: Tensor) -> None:
    """Log pass@k of the groups of all ranks.

    `rewards_per_function` `[N, functions]` has the rewards of all completions, in the order of their groups.
    """
    with ignore_failure(trainer, "pass@k of the rollout cannot be measured"):
        correct = find_correct(trainer, rewards_per_function)
        if correct is not None:
            append_to_log(trainer, measure_groups(correct.tolist(), trainer.num_generations))


def find_correct(trainer: GRPOTrainer, rewards_per_function: Tensor) -> Tensor | None:
    """Return 1 for each correct completion, 0 for each incorrect one and NaN for each unscored one, `[N]`.

    The result is `None` if there are several reward functions, and none was named that decides.
    """
    if not is_decided(trainer):
        return None
    rewards = deciding_reward(trainer, rewards_per_function)
    correct = (rewards > trainer.args.correct_threshold).float()
    return correct.masked_fill(rewards.isnan(), torch.nan)
