"""Gathers whole groups on the ranks that need them. A group is the set of all completions of a prompt.

Tokens are gathered from other ranks only if a group is spread over several ranks or a method compares the whole
rollout.
"""

from typing import Any

import torch
from torch import Tensor

from steer_trl.shaping import Reads, Rollout
from steer_trl.trainer.correctness import deciding_reward, total_reward
from steer_trl.trainer.inputs import STORED_ENTROPIES, STORED_LOGPS, loss_mask
from steer_trl.trainer.trl import GRPOTrainer


def whole_groups(
    trainer: GRPOTrainer,
    reads: Reads,
    rollout: dict[str, Any],
    with_truncated: dict[str, Any],
    rewards_per_function: Tensor,
) -> tuple[Rollout, slice]:
    """Return the groups that methods compare, with what they read, and the slice of this rank's rows.

    Collective.

    `rollout` has this rank's completions, with masks of the tokens in the loss. The masks in `with_truncated` also
    include truncated completions, which the loss may leave out.
    """
    count = len(rollout["advantages"])
    size = trainer.num_generations
    start = trainer.accelerator.process_index * count
    rank_rows = slice(start, start + count)
    # Some completions of a group may be on other ranks.
    is_spread = count % size != 0
    sees_all = trainer.accelerator.num_processes > 1 and (is_spread or reads.all_ranks)

    def fetch(tensor: Tensor) -> Tensor:
        if not sees_all:
            return tensor
        return trainer.accelerator.gather(trainer.accelerator.pad_across_processes(tensor, dim=1))

    def fetch_mask(inputs: dict[str, Any]) -> Tensor:
        # The mask is converted so that only one byte per token is gathered.
        return fetch(loss_mask(inputs).to(torch.uint8)).bool()

    # `rewards_per_function` has the rewards of all ranks.
    rows = slice(None) if sees_all else rank_rows
    groups = Rollout(
        num_generations=size,
        mask=fetch_mask(rollout),
        advantages=fetch(rollout["advantages"].view(count, -1)),
        rewards=total_reward(trainer, rewards_per_function[rows]) if reads.rewards else None,
        deciding_rewards=deciding_reward(trainer, rewards_per_function[rows]) if reads.rewards else None,
        logps=fetch(with_truncated[STORED_LOGPS]) if reads.logps else None,
        entropies=fetch(with_truncated[STORED_ENTROPIES]) if reads.entropies else None,
        response_mask=fetch_mask(with_truncated) if with_truncated is not rollout else None,
    )
    return groups, rank_rows if sees_all else slice(0, count)


def own_rows(trainer: GRPOTrainer, rollout: dict[str, Any]) -> Tensor:
    """Return the row numbers `[B]` of this rank's B completions in the rollout of all ranks."""
    count = len(rollout["completion_ids"])
    device = rollout["completion_ids"].device
    return torch.arange(count, device=device) + trainer.accelerator.process_index * count
