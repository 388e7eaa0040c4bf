"""Which of the groups that wait for their rollout can be trained on beside those that are written now.

They may come from the checkpoint of a run with other settings. What does not fit is dropped, and a warning states how
many groups, and why.
"""

import logging
from collections import Counter

import torch

from steer_trl.functional.informative import is_informative
from steer_trl.trainer.sampling.completions import Completion, Group, has_logprobs
from steer_trl.trainer.sampling.select import correctness_column
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)


def fitting(trainer: GRPOTrainer, groups: list[Group], scored_by: list[str] | None) -> list[Group]:
    """Return those of a checkpoint's `groups` that `trainer` can train on.

    `scored_by` are the names of their reward functions, `None` in checkpoints of earlier versions.
    """
    reasons = [_misfit(trainer, group, scored_by) for group in groups]
    _report(reasons)
    return [group for group, reason in zip(groups, reasons, strict=True) if not reason]


def alike(groups: list[Group], written: list[Completion]) -> list[Group]:
    """Return the `groups` that fit what is `written` now: with log-probabilities of the engine, or without as well."""
    if not groups or has_logprobs(groups[0]) == has_logprobs(written):
        return groups
    _report([_of_engine(has_logprobs(groups[0]))] * len(groups))
    return []


def _misfit(trainer: GRPOTrainer, group: Group, scored_by: list[str] | None) -> str:
    """Why `group` cannot be trained on; empty if it can."""
    names, rewards = trainer.reward_func_names, torch.tensor([completion["rewards"] for completion in group])
    if len(group) != trainer.num_generations:
        return f"of {len(group)} completions, now num_generations={trainer.num_generations}"
    if rewards.size(1) != len(names) or scored_by not in (None, names):
        return f"scored by {scored_by or f'{rewards.size(1)} functions'}, now {names}"
    if not is_informative(rewards[:, correctness_column(trainer)], len(group)):
        return f"not informative by {names[correctness_column(trainer)]!r}"
    if trainer.rollout_func is None and has_logprobs(group) != trainer.use_vllm:
        return _of_engine(has_logprobs(group))
    return ""


def _of_engine(with_logprobs: bool) -> str:
    have, now = ("with", "without") if with_logprobs else ("without", "with")
    return f"{have} log-probabilities of the engine, now {now} them"


def _report(reasons: list[str]) -> None:
    counts = Counter(filter(None, reasons))
    if counts:
        listed = "; ".join(f"{count} {reason}" for reason, count in counts.items())
        logger.warning("%d of the %d groups that waited are dropped: %s.", counts.total(), len(reasons), listed)
