"""pass@k of the groups of any GRPO trainer (`monitoring/groups.py`), from what its reward function returns.

TRL's log has no number of single groups, and a callback receives no trainer. So this module finds the trainer that
calls the callback, and lets the reward function that decides what is correct pass each list of rewards on. It uses
public attributes of TRL's trainers only. The groups are those of the main process.
"""

import inspect
import logging
import math
from collections.abc import Callable, Sequence
from functools import wraps
from statistics import fmean
from typing import Any

from torch import nn
from transformers import TrainerState

from steer_trl.monitoring.alarms import call_safely
from steer_trl.monitoring.groups import measure_groups
from steer_trl.support.validation import check_correct_reward, refuse

logger = logging.getLogger(__name__)


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
    """Reads the rewards of a trainer's training completions. A completion is correct if its reward is above 0.

    `correct_reward` is the name of the reward function that decides. `None` is the trainer's only one; if the trainer
    has several, nothing is read.
    """

    def __init__(self, correct_reward: str | None = None) -> None:
        self.correct_reward = correct_reward
        self._trainer: Any = None
        self._place = 0
        self._original: Any = None
        self._rollouts: list[dict[str, float]] = []

    def check(self, trainer: Any) -> None:
        """Raise `ValueError` if `correct_reward` is set and is not the name of one reward function of `trainer`."""
        if self.correct_reward is not None:
            names = getattr(trainer, "reward_func_names", [])
            refuse(check_correct_reward(self.correct_reward, names), "AlarmsCallback")

    def begin(self, trainer: Any) -> None:
        """Read the rewards of `trainer` from now on, if the function that decides is called in this process."""
        self.end()
        functions: Any = getattr(trainer, "reward_funcs", None)
        if not isinstance(functions, list) or not hasattr(trainer, "num_generations"):
            return
        if self.correct_reward is None and len(functions) > 1:
            return
        self._place = 0 if self.correct_reward is None else trainer.reward_func_names.index(self.correct_reward)
        reward = functions[self._place]
        # A reward model gets tokens instead of completions, and TRL awaits an asynchronous function.
        if not isinstance(reward, nn.Module) and not _is_asynchronous(reward):
            self._trainer = trainer
            self._original = reward
            functions[self._place] = self._pass_on(reward)
        elif self.correct_reward is not None:
            logger.warning(
                "rollout_pass@k is not logged: correct_reward=%r is a reward model or an asynchronous function, whose "
                "rewards AlarmsCallback cannot read.",
                self.correct_reward,
            )

    def end(self) -> None:
        """Give the trainer its own reward function back."""
        if self._trainer is not None:
            self._trainer.reward_funcs[self._place] = self._original
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
