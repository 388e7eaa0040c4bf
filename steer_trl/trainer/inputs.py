"""TRL's dictionary of a micro-batch as a [`~steer_trl.shaping.TokenBatch`]: masks, ratios, clip range, draws."""

from typing import Any

import torch
from torch import Tensor

from steer_trl.randomness import uniform
from steer_trl.shaping import TokenBatch
from steer_trl.shaping.batch import mean_of_tokens
from steer_trl.shaping.conflicts import CLIPPED_LOSSES
from steer_trl.trainer.typed import GRPOTrainer

# What `rollout.py` adds to the dictionary; TRL shuffles and splits it with the rest.
OLD_LOGPS = "scored_per_token_logps"
OLD_ENTROPIES = "scored_per_token_entropies"
ROWS = "rollout_rows"
REWARDS = "rollout_rewards"


def loss_mask(inputs: dict[str, Any]) -> Tensor:
    """The `[B, T]` mask of the tokens that TRL trains on: completion tokens, less those a tool wrote."""
    mask = inputs["completion_mask"]
    return mask * inputs["tool_mask"] if "tool_mask" in inputs else mask


def token_batch(
    trainer: GRPOTrainer, inputs: dict[str, Any], logps: Tensor, entropies: Tensor, draws: bool
) -> TokenBatch:
    """Return the micro-batch `inputs` as methods see it, scored with `logps` and `entropies` `[B, T]`.

    `draws` says whether a method asks for random numbers.
    """
    mask, advantages = loss_mask(inputs), inputs["advantages"]
    old_logps, log_ratio = inputs.get("old_per_token_logps", logps), None
    if trainer.importance_sampling_level == "sequence":
        # As the loss takes it: the mean log-ratio of the sequence's tokens, of the finite ones.
        log_ratio = mean_of_tokens(logps - old_logps, mask).nan_to_num(0.0).unsqueeze(1)
    clips = trainer.loss_type in CLIPPED_LOSSES
    rows = inputs.get(ROWS, torch.arange(len(logps), device=logps.device))  # evaluation has no whole rollout
    return TokenBatch(
        logps=logps,
        old_logps=old_logps,
        entropies=entropies,
        old_entropies=inputs.get(OLD_ENTROPIES, entropies),
        advantages=advantages.unsqueeze(1) if advantages.dim() == 1 else advantages,
        mask=mask,
        epsilon_low=trainer.epsilon_low if clips else float("inf"),
        epsilon_high=trainer.epsilon_high if clips else float("inf"),
        draws=uniform(trainer.args.seed, trainer.state.global_step, rows, logps.size(1)) if draws else None,
        log_ratio=log_ratio,
    )
