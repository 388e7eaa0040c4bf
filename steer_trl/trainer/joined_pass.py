"""Runs a model on rows without padding. TRL pads each row to the longest prompt and completion of its whole rollout.

Each row's tokens are moved to the left: the prompt begins in column 0, and the completion follows directly. A pass is
then only as wide as its longest row. In causal attention no token sees the columns to its right, so no mask is needed.
The outputs are moved back to where TRL expects them. This is correct for rotary positions, which depend only on
distances.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from steer_trl.trainer.assignment import cut

PassInputs = dict[str, Any]
"""The arguments of a forward pass except the model, under the names that TRL gives them."""
ForwardPass = Callable[..., tuple[Any, ...]]
"""TRL's forward pass, which takes a model and [`PassInputs`]. It returns log-probabilities and entropies `[B, T]`,
followed by other outputs.
"""


def run_joined(forward_pass: ForwardPass, model: Any, inputs: PassInputs, multiple: int | None) -> tuple[Any, ...]:
    """Return the outputs of `forward_pass` on rows without padding.

    The outputs `[B, T]` are 0 for padding tokens. The widths of the passes are multiples of `multiple`, if given.
    """
    mask = inputs["attention_mask"]
    completion_width = inputs["logits_to_keep"]
    prompt_width = mask.size(1) - completion_width
    begin, length = _find_tokens(mask, prompt_width)
    of_prompt = prompt_width - begin
    passes = _plan(length, of_prompt, inputs.get("batch_size"), multiple or 1)
    parts = []
    for rows, width, kept in passes:
        places = torch.arange(width, device=mask.device)
        columns = (begin[rows, None] + places).clamp(max=mask.size(1) - 1)
        ids = inputs["input_ids"][rows].gather(1, columns)
        has_token = mask[rows].gather(1, columns) * (places < length[rows, None])
        # The loss of a router reads the mask.
        joined_mask = has_token if inputs.get("compute_aux_loss") else torch.ones_like(has_token)
        joined = {"input_ids": ids, "attention_mask": joined_mask, "logits_to_keep": kept, "batch_size": None}
        outputs = forward_pass(model, **inputs | joined)

        tokens = torch.arange(completion_width, device=mask.device)
        sources = (of_prompt[rows, None] - (width - kept) + tokens).clamp(max=kept - 1)
        is_written = tokens < (length - of_prompt)[rows, None]
        parts.append([_move_back(x, sources, is_written) for x in outputs])
    places_of_rows = torch.cat([rows for rows, *_ in passes]).argsort()
    return tuple(_join(list(of_parts), places_of_rows) for of_parts in zip(*parts, strict=True))


def take_rows(inputs: PassInputs, rows: Tensor | slice) -> PassInputs:
    """Return the inputs of a forward pass for only the sequences in `rows`.

    Tensors must have one row per sequence.
    """
    return {name: x[rows] if isinstance(x, Tensor) else x for name, x in inputs.items()}


def _find_tokens(mask: Tensor, prompt_width: int) -> tuple[Tensor, Tensor]:
    """Return the first column and the number of columns to keep for each of B rows, both `[B]`."""
    # The column before a completion is kept even if the prompt is empty, because it predicts the first token.
    begin = mask.argmax(1).clamp(max=prompt_width - 1)
    end = torch.where(mask.any(1), mask.size(1) - mask.flip(1).argmax(1), 0)
    # TRL's head needs at least two columns.
    return begin, (end - begin).clamp(min=2)


def _plan(length: Tensor, of_prompt: Tensor, batch_size: int | None, multiple: int) -> list[tuple[Tensor, int, int]]:
    """Return the rows of each pass, its width, and the number of columns on which the head runs.

    The longest rows come first. There are as many passes as if each of them had `batch_size` rows. The CPU waits for
    the accelerator only once.
    """
    size = len(length)
    order = length.argsort(descending=True, stable=True)
    lengths, of_prompts = torch.stack([length, of_prompt])[:, order].tolist()
    batch_size = min(batch_size or size, size)
    sizes = cut(lengths, math.ceil(size / batch_size), batch_size * lengths[0])
    passes = []
    first = 0
    for rows in order.split(sizes):
        last = first + len(rows)
        width = _round_up(lengths[first], multiple)
        kept = _round_up(max(width - min(of_prompts[first:last]), 1), multiple)
        passes.append((rows, width, min(kept, width - 1)))
        first = last
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
