"""Scores completions and judges groups: a group is informative if its completions differ in correctness."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from steer_trl.functional.informative import is_informative
from steer_trl.trainer.trl import GRPOTrainer, calculate_rewards, count_written

Rows = list[dict[str, Any]]
"""Rows of the data set, one for each completion."""


@dataclass(frozen=True)
class GroupVerdict:
    """The rewards and lengths of all ranks' completions, and a mask of the informative groups.

    The N completions are in the order of their groups. `rewards` `[N, functions]` are NaN if a function could not
    score a completion. `correctness` `[N]` has the rewards that decide whether a completion is correct. `lengths`
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
    def merge(cls, parts: list["GroupVerdict"]) -> "GroupVerdict":
        """Concatenate the verdicts on several attempts."""
        return cls(**{one.name: torch.cat([getattr(part, one.name) for part in parts]) for one in fields(cls)})


def judge_groups(trainer: GRPOTrainer, inputs: Rows, prompts: list[Any], generated: tuple[Any, ...]) -> GroupVerdict:
    """Score the completions that TRL has `generated` for `inputs`, and judge the groups of all ranks.

    Collective.
    """
    _, completion_ids, _, completions, _, extra_fields, *_ = generated
    # A `rollout_func` may return extra fields for the reward functions. As in TRL, they are added to the rows.
    for i, row in enumerate(inputs):
        row |= {name: values[i] if isinstance(values, list) else values for name, values in extra_fields.items()}
    rewards = calculate_rewards(trainer, inputs, prompts, completions, completion_ids)
    lengths = trainer.accelerator.gather(torch.tensor(count_written(generated), device=rewards.device))
    correctness = rewards[:, correctness_column(trainer)]
    return GroupVerdict(rewards, correctness, lengths, is_informative(correctness, trainer.num_generations))


def correctness_column(trainer: GRPOTrainer) -> int:
    """Return the index of the reward function that decides whether a completion is correct."""
    name = trainer.args.dynamic_sampling_reward
    return 0 if name is None else trainer.reward_func_names.index(name)
