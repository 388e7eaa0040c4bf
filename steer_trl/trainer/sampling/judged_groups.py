"""Scores completions and judges groups: a group is informative if its completions differ in correctness.

If no function decides which completions are correct, it is informative if their advantages are not 0.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from steer_trl.shaping.informative import is_informative
from steer_trl.trainer.correctness import deciding_reward, find_judges, is_decided, total_reward
from steer_trl.trainer.trl import GRPOTrainer, calculate_rewards, count_written

Rows = list[dict[str, Any]]
"""Rows of the data set, one for each completion."""


@dataclass(frozen=True)
class JudgedGroups:
    """The rewards and lengths of all ranks' completions, and a mask of the informative groups.

    The N completions are in the order of their groups. `rewards` `[N, functions]` are NaN if a function could not
    score a completion. `correctness` `[N]` has the rewards by which groups are judged (`correctness.py`). `lengths`
    `[N]` count the tokens that the policy wrote. `chosen` `[groups]` marks the informative groups.
    """

    rewards: Tensor
    correctness: Tensor
    lengths: Tensor
    chosen: Tensor

    @property
    def dropped(self) -> Tensor:
        """A mask over all completions, which is true in groups that are not informative."""
        return ~self.chosen.repeat_interleave(len(self.rewards) // len(self.chosen))

    @classmethod
    def merge(cls, parts: list["JudgedGroups"]) -> "JudgedGroups":
        """Concatenate the judged groups of several attempts."""
        return cls(**{field.name: torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)})


def judge_groups(trainer: GRPOTrainer, inputs: Rows, prompts: list[Any], generated: tuple[Any, ...]) -> JudgedGroups:
    """Score the completions that TRL has `generated` for `inputs`, and judge the groups of all ranks.

    Collective.
    """
    _, completion_ids, _, completions, _, extra_fields, *_ = generated
    # A `rollout_func` may return extra fields for the reward functions. As in TRL, they are added to the rows.
    for i, row in enumerate(inputs):
        row |= {name: values[i] if isinstance(values, list) else values for name, values in extra_fields.items()}
    rewards = calculate_rewards(trainer, inputs, prompts, completions, completion_ids)
    lengths = trainer.accelerator.gather(torch.tensor(count_written(generated), device=rewards.device))
    return JudgedGroups(rewards, deciding_reward(trainer, rewards), lengths, find_informative(trainer, rewards))


def find_informative(trainer: GRPOTrainer, rewards: Tensor) -> Tensor:
    """Return a mask `[groups]` of the groups that carry a learning signal, from rewards `[N, functions]`.

    A group whose completions the deciding function could not score, as those of another task, is judged as though no
    function decided. If none decides which completions are correct, these are the groups whose advantages are not 0.
    """
    if not is_decided(trainer):
        return _have_advantages(trainer, rewards)
    deciding = deciding_reward(trainer, rewards)
    is_unscored = deciding.view(-1, trainer.num_generations).isnan().all(1)
    return is_informative(deciding, trainer.num_generations) | is_unscored & _have_advantages(trainer, rewards)


def _have_advantages(trainer: GRPOTrainer, rewards: Tensor) -> Tensor:
    """Return a mask of the groups whose advantages are not 0."""
    size = trainer.num_generations
    if trainer.args.multi_objective_aggregation == "sum_then_normalize":
        return is_informative(total_reward(trainer, rewards), size)
    weighted = rewards[:, trainer.reward_weights.to(rewards.device) != 0]
    return torch.stack([is_informative(column, size) for column in weighted.unbind(1)]).any(0)


def share_without_judge(trainer: GRPOTrainer, judged: JudgedGroups) -> Tensor:
    """Return the share of the chosen groups in which no function that seems to judge correctness varies.

    The names of such functions contain "accuracy", "correct" or "right". The share is NaN if no group is chosen.
    """
    judges = find_judges(trainer.reward_func_names)
    varies = torch.zeros_like(judged.chosen)
    for name in judges:
        column = judged.rewards[:, trainer.reward_func_names.index(name)]
        varies |= is_informative(column, trainer.num_generations)
    return (~varies[judged.chosen]).float().mean()
