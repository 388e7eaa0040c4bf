"""Logs statistics of the completions that dynamic sampling generates, trains on and drops.

TRL receives only the chosen groups, so the rewards that it logs would be misleading. This module replaces them with
the rewards of all generated completions.
"""

import math

import torch
from torch import Tensor
from trl.trainer.utils import nanstd

from steer_trl.trainer.correctness import is_decided, total_reward
from steer_trl.trainer.sampling.judged_groups import JudgedGroups, share_without_judge
from steer_trl.trainer.trl import GRPOTrainer, append_to_log, remove_last, replace_last


def log_sampling(trainer: GRPOTrainer, generated: JudgedGroups | None, trained: JudgedGroups) -> None:
    """Log how the groups in `trained` were chosen from all groups in `generated`.

    Call it after TRL has logged.

    `generated` is `None` if the rollout has only groups that were left over from earlier rollouts.
    """
    if generated is None:
        remove_last(trainer, _reward_keys(trainer))
    else:
        replace_last(trainer, _reward_metrics(trainer, generated))
    metrics = {
        "dynamic_sampling/uninformative": _mean(~trained.chosen),
        "dynamic_sampling/reward_trained": _mean(total_reward(trainer, trained.rewards)),
    }
    if is_decided(trainer):
        metrics["dynamic_sampling/accuracy_trained"] = _mean(_is_correct(trainer, trained))
    else:
        metrics["dynamic_sampling/without_judge"] = share_without_judge(trainer, trained)
    if generated is not None:
        metrics |= _selection_metrics(trainer, generated, trained)
    append_to_log(trainer, _to_numbers(metrics))


def _reward_keys(trainer: GRPOTrainer) -> list[str]:
    keys = ["reward", "reward_std", "frac_reward_zero_std"]
    return keys + [f"rewards/{name}/{kind}" for name in trainer.reward_func_names for kind in ("mean", "std")]


def _reward_metrics(trainer: GRPOTrainer, generated: JudgedGroups) -> dict[str, float]:
    """Return the values of TRL's reward keys, computed over all generated completions."""
    total = total_reward(trainer, generated.rewards)
    spread = nanstd(total.view(-1, trainer.num_generations), dim=1)
    is_flat = torch.isclose(spread, torch.zeros_like(spread)).float()
    values = [total.nanmean(), nanstd(total), is_flat.mean()]
    for rewards in generated.rewards.unbind(1):
        values += [rewards.nanmean(), nanstd(rewards)]
    return _to_numbers(dict(zip(_reward_keys(trainer), values, strict=True)))


def _selection_metrics(trainer: GRPOTrainer, generated: JudgedGroups, trained: JudgedGroups) -> dict[str, Tensor]:
    tokens = generated.lengths.sum()
    trained_tokens = trained.lengths.sum()
    return _accuracy_metrics(trainer, generated) | {
        "dynamic_sampling/informative": _mean(generated.chosen),
        "dynamic_sampling/reward_dropped": _mean(total_reward(trainer, generated.rewards), generated.dropped),
        "dynamic_sampling/tokens_per_trained_token": torch.where(
            trained_tokens > 0, tokens / trained_tokens, math.nan
        ),
    }


def _accuracy_metrics(trainer: GRPOTrainer, generated: JudgedGroups) -> dict[str, Tensor]:
    """Return shares of correct completions and of uniform groups; empty if no reward function decides."""
    if not is_decided(trainer):
        return {}
    correct = _is_correct(trainer, generated)
    accuracy = correct.view(-1, trainer.num_generations).nanmean(1)
    return {
        "dynamic_sampling/all_correct": _mean(~generated.chosen & (accuracy > 0.5)),
        "dynamic_sampling/all_incorrect": _mean(~generated.chosen & (accuracy <= 0.5)),
        "dynamic_sampling/accuracy": _mean(correct),
        "dynamic_sampling/accuracy_dropped": _mean(correct, generated.dropped),
    }


def _is_correct(trainer: GRPOTrainer, judged: JudgedGroups) -> Tensor:
    """Return 1 for each correct completion, 0 for each incorrect one, and NaN for each unscored one."""
    correct = (judged.correctness > trainer.args.correct_threshold).float()
    return correct.masked_fill(judged.correctness.isnan(), torch.nan)


def _mean(values: Tensor, among: Tensor | None = None) -> Tensor:
    values = values.float()
    return (values if among is None else torch.where(among, values, math.nan)).nanmean()


def _to_numbers(values: dict[str, Tensor]) -> dict[str, float]:
    """Convert all `values` to Python numbers with one transfer from the device."""
    numbers = torch.stack([value.float() for value in values.values()]).tolist()
    return dict(zip(values, numbers, strict=True))
