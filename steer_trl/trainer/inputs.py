"""Converts TRL's micro-batch dictionary to a `TokenBatch`, and names the keys that this package adds to it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from steer_trl.options.trl import CLIPPED_LOSSES
from steer_trl.shaping import TokenBatch
from steer_trl.shaping.batch import mean_of_tokens
from steer_trl.support.randomness import draw_uniform
from steer_trl.trainer.trl import GRPOTrainer, find_position

# Columns that `rollout.py` adds to the dictionary: the score of the rollout under the policy that generated it. TRL
# shuffles and splits them together with its own columns. Its `old_per_token_logps`, the denominator of the ratio, is
# absent if a rollout is trained on in one step without vLLM.
STORED_LOGPS = "scored_per_token_logps"
STORED_ENTROPIES = "scored_per_token_entropies"
STORED_SENSITIVITIES = "scored_per_token_sensitivities"
REF_LOGPS = "ref_per_token_logps"
"""TRL's column of log-probabilities under the reference model."""
ROWS = "rollout_rows"
REWARDS = "rollout_rewards"
EXPORT_STEP = "export_step"
"""Key of the step that names the file of single tokens, in rollouts that are exported."""

PassInputs = dict[str, Any]
"""The arguments of a forward pass except the model, under the names that TRL gives them."""
ForwardPass = Callable[..., tuple[Any, ...]]
"""TRL's forward pass, which takes a model and [`PassInputs`]. It returns log-probabilities and entropies `[B, T]`,
followed by other outputs.
"""


class Score(NamedTuple):
    """Each token's log-probability, entropy and, if computed, sensitivity in a forward pass of the policy.

    All tensors have the shape `[B, T]`, for B completions of T tokens.
    """

    logps: Tensor
    entropies: Tensor
    sensitivities: Tensor | None = None


def store_score(rollout: dict[str, Any], score: Score) -> None:
    """Add `score` to the dictionary `rollout`.

    The score was computed under the policy that generated the rollout.
    """
    names = (STORED_LOGPS, STORED_ENTROPIES, STORED_SENSITIVITIES)
    rollout.update({name: x for name, x in zip(names, score, strict=True) if x is not None})


def find_stored_score(inputs: dict[str, Any]) -> Score:
    """Return the score that [`store_score`] has added."""
    return Score(inputs[STORED_LOGPS], inputs[STORED_ENTROPIES], inputs.get(STORED_SENSITIVITIES))


def take_rows(inputs: PassInputs, rows: Tensor | slice) -> PassInputs:
    """Return the inputs of a forward pass for only the sequences in `rows`.

    Tensors must have one row per sequence.
    """
    return {name: x[rows] if isinstance(x, Tensor) else x for name, x in inputs.items()}


def loss_mask(inputs: dict[str, Any]) -> Tensor:
    """Return the mask `[B, T]` of the tokens that TRL trains on.

    These are all completion tokens except those that a tool wrote.
    """
    mask = inputs["completion_mask"]
    return mask * inputs["tool_mask"] if "tool_mask" in inputs else mask


def token_batch(trainer: GRPOTrainer, inputs: dict[str, Any], score: Score, draws: bool) -> TokenBatch:
    """Return the micro-batch `inputs` and its `score` as a `TokenBatch`.

    With `draws`, the batch also has a random number for each token.
    """
    logps, entropies, sensitivities = score
    mask = loss_mask(inputs)
    advantages = inputs["advantages"]
    old_logps = inputs.get("old_per_token_logps", logps)
    log_ratio = None
    if trainer.importance_sampling_level == "sequence":
        # As in TRL's loss, this is the mean of the finite log-ratios of the sequence's tokens.
        log_ratio = mean_of_tokens(logps - old_logps, mask).nan_to_num(0.0).unsqueeze(1)
    clips = trainer.loss_type in CLIPPED_LOSSES
    # In an evaluation the rows do not belong to a rollout, so they are numbered from 0.
    rows = inputs.get(ROWS, torch.arange(len(logps), device=logps.device))
    # If a step has several rollouts, their rows have the same numbers, and `part` tells them apart.
    position = find_position(trainer)
    part = position.of_run // position.per_step
    return TokenBatch(
        logps=logps,
        old_logps=old_logps,
        entropies=entropies,
        old_entropies=inputs.get(STORED_ENTROPIES, entropies),
        advantages=advantages.unsqueeze(1) if advantages.dim() == 1 else advantages,
        mask=mask,
        epsilon_low=trainer.epsilon_low if clips else float("inf"),
        epsilon_high=trainer.epsilon_high if clips else float("inf"),
        draws=draw_uniform(trainer.args.seed, part, rows, logps.size(1)) if draws else None,
        log_ratio=log_ratio,
        sensitivities=sensitivities,
        ref_logps=inputs.get(REF_LOGPS),
        is_first_step=trainer.model.training and position.is_in_first_step,
    )
