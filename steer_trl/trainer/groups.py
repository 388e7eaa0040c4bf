"""Gathers whole groups on the ranks that need them. A group is the set of all completions of a prompt.

Tokens are gathered from other ranks only if a group is spread over several ranks or a method compares the whole
rollout.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from steer_trl.shaping import Rollout, Shaper
from steer_trl.trainer.inputs import OLD_ENTROPIES, OLD_LOGPS, loss_mask
from steer_trl.trainer.trl import GRPOTrainer


def whole_groups(
    trainer: GRPOTrainer,
    shapers: Sequence[Shaper],
    rollout: dict[str, Any],
    compared: dict[str, Any],
    rewards_per_function: Tensor,
) -> tuple[Rollout, slice]:
    """Return the groups that the methods in `shapers` compare, and the slice of this rank's rows.

    Collective.

    `rollout` has this rank's completions, with masks of the tokens in the loss. The masks in `compared` also include
    truncated completions, which the loss may leave out.
    """
    reads = {name for shaper in shapers for name in shaper.reads}
    count = len(rollout["advantages"])
    size = trainer.num_generations
    start = trainer.accelerator.process_index * count
    seen = own = slice(start, start + count)
    if "all_ranks" in reads:
        seen = slice(0, count * trainer.accelerator.num_processes)
    # If a group is spread over several ranks, some of its completions are on other ranks.
    elif count % size:
        seen = slice(start // size * size, -(-own.stop // size) * size)

    def fetch(tensor: Tensor) -> Tensor:
        # Either all ranks return here or none does, as the collective calls below require.
        if seen == own:
            return tensor
        of_all_ranks = trainer.accelerator.gather(trainer.accelerator.pad_across_processes(tensor, dim=1))
        # The rows are copied, so that the memory of all other rows can be freed.
        return of_all_ranks[seen].clone()

    def fetch_mask(inputs: dict[str, Any]) -> Tensor:
        # The mask is converted so that only one byte per token is gathered.
        return fetch(loss_mask(inputs).to(torch.uint8)).bool()

    groups = Rollout(
        num_generations=size,
        mask=fetch_mask(rollout),
        advantages=fetch(rollout["advantages"].unsqueeze(1)),
        rewards=total_reward(trainer, rewards_per_function)[seen] if "rewards" in reads else None,
        logps=fetch(compared[OLD_LOGPS]) if "logps" in reads else None,
        entropies=fetch(compared[OLD_ENTROPIES]) if "entropies" in reads else None,
        response_mask=fetch_mask(compared) if compared is not rollout else None,
    )
    return groups, slice(start - seen.start, start - seen.start + count)


def own_rows(trainer: GRPOTrainer, rollout: dict[str, Any]) -> Tensor:
    """Return the row numbers `[B]` of this rank's B completions in the rollout of all ranks."""
    count = len(rollout["completion_ids"])
    device = rollout["completion_ids"].device
    return torch.arange(count, device=device) + trainer.accelerator.process_index * count


def total_reward(trainer: GRPOTrainer, rewards_per_function: Tensor) -> Tensor:
    """Return TRL's weighted sum of rewards for each of N completions.

    The sum is NaN if no function could score a completion.
    """
    weights = trainer.reward_weights.to(rewards_per_function.device)
    total = (rewards_per_function * weights).nansum(dim=1)
    return torch.where(rewards_per_function.isnan().all(dim=1), torch.nan, total)
