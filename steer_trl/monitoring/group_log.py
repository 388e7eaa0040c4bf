"""pass@k of the groups of any GRPO trainer (`monitoring/groups.py`), from what its reward function returns.

TRL's log has no number of single groups, and a callback receives no trainer. So this module finds the trainer that
calls the callback, and lets its only reward function pass each list of rewards on. It uses public attributes of TRL's
trainers only. The groups are those of the main process.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from functools import wraps
from statistics import fmean
from typing import Any

from torch import nn
from transformers import TrainerState

from steer_trl.monitoring.alarms import call_safely
from steer_trl.monitoring.groups import measure_groups


def find_trainer(state: TrainerState) -> Any:
    """Return the trainer with this `state` among the callers, or `None` if there is none."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if getattr(owner, "state", None) is state and hasattr(owner, "callback_handler"):
            return owner
        frame = frame.f_back
    return None


class GroupWatch:
    """Reads the rewards of a trainer's training completions. A completion is correct if its reward is above 0."""

    def __init__(self) -> None:
        self._trainer: Any = None
        self._original: Any = None
        self._rollouts: list[dict[str, float]] = []

    def begin(self, trainer: Any) -> None:
        """Read the rewards of `trainer` from now on, if it has one reward function that is called in this process."""
        self.end()
        functions: Any = getattr(trainer, "reward_funcs", None)
        if not isinstance(functions, list) or len(functions) != 1 or not hasattr(trainer, "num_generations"):
            return
        (reward,) = functions
        # A reward model gets tokens instead of completions, and TRL awaits an asynchronous function.
        if not isinstance(reward, nn.Module) and not _is_asynchronous(reward):
            self._trainer = trainer
            self._original = reward
            functions[0] = self._pass_on(reward)

    def end(self) -> None:
        """Give the trainer its own reward function back."""
        if self._trainer is not None:
            self._trainer.reward_funcs[0] = self._original
        self._trainer = None
        self._rollouts = []

    def pop(self) -> dict[str, float]:
        """Return the means of the rollouts since the last call, by the key of the log."""
        keys = dict.fromkeys(key for metrics in self._rollouts for key in metrics)
        means = {key: fmean(metrics[key] for metrics in self._rollouts if key in metrics) for key in keys}
        self._rollouts = []
        return means

    def _pass_on(self, reward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(reward)
        def read(*arguments: Any, **fields: Any) -> Any:
            rewards = reward(*arguments, **fields)
            # An evaluation has groups too, of other prompts.
            if self._trainer is not None and self._trainer.model.training:
                call_safely(self._add, rewards)
            return rewards

        return read

    def _add(self, rewards: Any) -> None:
        size = self._trainer.num_generations
        # If a group is spread over several processes, no process sees it whole.
        if isinstance(rewards, Sequence) and len(rewards) % size == 0:
            self._rollouts.append(measure_groups([_is_correct(reward) for reward in rewards], size))


def _is_correct(reward: float | None) -> float:
    return math.nan if reward is None or math.isnan(reward) else float(reward > 0)


def _is_asynchronous(function: Any) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004  # as TRL finds out
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
