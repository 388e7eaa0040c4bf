"""Runs a model on rows without padding. TRL pads each row to the longest prompt and completion of its whole rollout.

Each row's tokens are moved to the left: the prompt begins in column 0, and the completion follows directly. A pass is
then only as wide as its longest row. In causal attention no token sees the columns to its right, so no mask is needed.
The outputs are moved back to where TRL expects them. This is correct for rotary positions, which depend only on
distances. It serves attention that cannot compute a packed row (`attention.py`).
"""

import math
from typing import Any

import torch
from torch import Tensor

from steer_trl.trainer.inputs import ForwardPass, PassInputs


def run_joined(forward_pass: ForwardPass, model: Any, inputs: PassInputs, multiple: int | None) -> tuple[Any, ...]:
    """Return the outputs of `forward_pass` on rows without padding.

    The outputs `[B, T]` are 0 for padding tokens. The widths of the passes are multiples of `multiple`, if given. Rows
    whose mask has holes are computed by TRL's padded pass.
    """
    mask = inputs["attention_mask"]
    completion_width = inputs["logits_to_keep"]
    prompt_width = mask.size(1) - completion_width
    begin, length = _find_tokens(mask, prompt_width)
    of_prompt = prompt_width - begin
    passes = _plan(mask, length, of_prompt, inputs.get("batch_size"), multiple or 1)
    if passes is None:
        return forward_pass(model, **inputs)
    parts = []
    for rows, width, kept in passes:
        places = torch.arange(width, device=mask.device)
        columns = (begin[rows, None] + places).clamp(max=mask.size(1) - 1)
        ids = inputs["input_ids"][rows].gather(1, columns)
        joined = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "logits_to_keep": kept, "batch_size": None}
        outputs = forward_pass(model, **inputs | joined)

        tokens = torch.arange(completion_width, device=mask.device)
        sources = (of_prompt[rows, None] - (width - kept) + tokens).clamp(max=kept - 1)
        is_written = tokens < (length - of_prompt)[rows, None]
        parts.append([_move_back(x, sources, is_written) for x in outputs])
    places_of_rows = torch.cat([rows for rows, *_ in passes]).argsort()
    return tuple(_join(list(of_parts), places_of_rows) for of_parts in zip(*parts, strict=True))


def _find_tokens(mask: Tensor, prompt_width: int) -> tuple[Tensor, Tensor]:
    """Return the first column and the number of columns to keep for each of B rows, both `[B]`."""
    # The column before a completion is kept even if the prompt is empty, because it predicts the first token.
    begin = mask.argmax(1).clamp(max=prompt_width - 1)
    end = torch.where(mask.any(1), mask.size(1) - mask.flip(1).argmax(1), 0)
    # TRL's head needs at least two columns.
    return begin, (end - begin).clamp(min=2)


def _plan(
    mask: Tensor, length: Tensor, of_prompt: Tensor, batch_size: int | None, multiple: int
) -> list[tuple[Tensor, int, int]] | None:
    """Return the rows of each pass, its width, and the number of columns on which the head runs.

    The longest rows come first. The result is `None` if a mask has holes. The CPU waits for the accelerator once.
    """
    size = len(length)
    order = length.argsort(descending=True, stable=True)
    missing = length - mask.sum(1)
    lengths, of_prompts, holes = torch.stack([length, of_prompt, missing])[:, order].tolist()
    # A row with fewer than two tokens has been widened.
    if any(hole > 0 and width > 2 for hole, width in zip(holes, lengths, strict=True)):
        return None
    passes = []
    for first in range(0, size, batch_size or size):
        last = min(first + (batch_size or size), size)
        width = _round_up(lengths[first], multiple)
        kept = _round_up(max(width - min(of_prompts[first:last]), 1), multiple)
        passes.append((order[first:last], width, min(kept, width - 1)))
    return passes


def _round_up(width: int, multiple: int) -> int:
    return math.ceil(width / multiple) * multiple


def _move_back(output: Tensor | None, sources: Tensor, is_written: Tensor) -> Tensor | None:
    """Move the outputs for each token from its column in the pass to its column in the completion."""
    if output is None or output.dim() != 2:
        return output
    return torch.where(is_written, output.gather(1, sources), 0.0)


def _join(parts: list[Tensor | None], places: Tensor) -> Tensor | None:
    """Join an output of several passes.

    Rows return to their original order; scalars are averaged, as in TRL.
    """
    found = [part for part in parts if part is not None]
    if not found:
        return None
    if found[0].dim() == 2:
        return torch.cat(found)[places]
    return torch.stack(found).mean()
