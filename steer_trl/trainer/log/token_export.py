"""Converts a completion to one line of JSON: fields about it, and columns with a number for each token.

A number is `null` if the loss leaves its token out.
"""

from typing import Any

from tokenizers.decoders import DecodeStream
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from steer_trl.monitoring.tokens import changes
from steer_trl.shaping import Shaped, TokenBatch
from steer_trl.trainer.trl import GRPOTrainer, tokenizer_of

LONGEST_PROMPT = 4000
"""The largest number of characters of a prompt that are exported."""
LONGEST_COMPLETION = 1024
"""The largest number of tokens of a completion that are exported."""


def line_of(
    trainer: GRPOTrainer,
    inputs: dict[str, Any],
    batch: TokenBatch,
    numbers: dict[str, Tensor],
    row: int,
    fields: dict[str, Any],
) -> dict[str, Any]:
    """Return the line for completion `row` of a micro-batch.

    The line has the `fields` and the columns in `numbers`.
    """
    tokenizer = tokenizer_of(trainer)
    ids = inputs["completion_ids"][row]
    written = (inputs["completion_mask"][row] != 0) | (ids != tokenizer.pad_token_id)
    length = int(written.nonzero().max()) + 1 if written.any() else 0
    count = min(length, LONGEST_COMPLETION)
    prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()]
    text = tokenizer.decode(prompt, skip_special_tokens=False)
    mask = batch.mask[row, :count].bool()
    columns = {name: _round(values[row, :count], mask) for name, values in numbers.items()}
    if "tool_mask" in inputs:
        # Both masks are 0 in a truncated completion that TRL masks, so `tool_mask` alone would mark all its tokens.
        tool = inputs["completion_mask"][row].bool() & ~inputs["tool_mask"][row].bool()
        columns["is_tool"] = tool[:count].tolist()
    return {
        **fields,
        "prompt": text if len(text) <= LONGEST_PROMPT else f"{text[:LONGEST_PROMPT]} [...]",
        "num_tokens": length,
        # As in TRL's log. A model may have several end tokens.
        "is_truncated": not length or int(ids[length - 1]) not in (*trainer.eos_token_ids, tokenizer.pad_token_id),
        "entropy_change_source": "exact" if is_exact(batch) else "estimate",
        "texts": texts_of(tokenizer, ids[:count].tolist()),
        "token_ids": ids[:count].tolist(),
        "loss_mask": mask.tolist(),
        **columns,
    }


def token_numbers(inputs: dict[str, Any], batch: TokenBatch, result: Shaped) -> dict[str, Tensor]:
    """Return a dictionary of the numeric columns of a micro-batch, one tensor `[B, T]` per column.

    `result` is the output of the methods.
    """
    logps = batch.logps.float()
    sampled = inputs.get("sampling_per_token_logps")
    sampled = (batch.old_logps if sampled is None else sampled).float()
    advantages = batch.advantages.expand_as(batch.logps)
    shaped = advantages if result.advantages is None else result.advantages
    return {
        "advantages": advantages,
        "inference_logprobs": sampled,
        "trainer_logprobs": logps,
        "entropy": batch.entropies,
        "importance_ratio": (logps - sampled).exp(),
        "weights": result.weights,
        "shaped_advantages": shaped,
        "surprisals": -logps,
        "entropy_changes": predicted_change(batch, shaped),
    }


def predicted_change(batch: TokenBatch, advantages: Tensor) -> Tensor:
    """Return the first-order change `[B, T]` of each token's entropy that the update on this token causes.

    The unit is nats per unit of step, without the learning rate. `advantages` `[B, T]` are those that the loss reads.
    The change is -I_clip r A Phi. Here I_clip is 0 for a clipped token and otherwise 1, r is the importance ratio, A
    is the advantage and Phi is the entropy sensitivity. If the batch has no exact Phi, STEER's estimate is used
    (arXiv 2510.10150, Eq. 9).
    """
    estimated, predicted = changes(batch, advantages)
    return predicted if predicted is not None and is_exact(batch) else estimated


def is_exact(batch: TokenBatch) -> bool:
    """Return whether the batch has exact sensitivities. They are NaN if the pass that computes them failed."""
    return batch.sensitivities is not None and not batch.sensitivities.isnan().all().item()


def texts_of(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[str]:
    """Return the text of each token. A character that spans several tokens is the text of the last of them."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    # A tokenizer that is written in Python has no backend.
    if backend is None:
        return [str(tokenizer.decode([token_id])) for token_id in ids]
    stream = DecodeStream(skip_special_tokens=False)
    return [stream.step(backend, token_id) or "" for token_id in ids]


def _round(values: Tensor, mask: Tensor) -> list[float | None]:
    return [
        float(f"{value:.5g}") if counts else None
        for value, counts in zip(values.float().tolist(), mask.tolist(), strict=True)
    ]
