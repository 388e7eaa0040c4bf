"""Runs a model on rows without padding. TRL pads each row to the longest prompt and completion of its whole rollout.

Each row's tokens are moved to the left: the prompt begins in column 0, and the completion follows directly. A pass is
then only as wide as its longest row. In causal attention no token sees the columns to its right, so no mask is needed.
The outputs are moved back to where TRL expects them. This is correct for rotary positions, which depend only on
distances. With other positions, only the columns on the right that have no token are removed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from steer_trl.trainer.assignment import cut

PER_TOKEN = {"input_ids", "attention_mask", "token_type_ids"}
"""The inputs of a forward pass that have a value for every token. They are moved together with the tokens."""

PassInputs = dict[str, Any]
"""The arguments of a forward pass except the model, under the names that TRL gives them."""
ForwardPass = Callable[..., tuple[Any, ...]]
"""TRL's forward pass, which takes a model and [`PassInputs`]. It returns log-probabilities and entropies `[B, T]`,
followed by other outputs.
"""


@dataclass(frozen=True)
class Layout:
    """How the rows of a model's passes may lie.

    Attributes:
        begins_left (`bool`): whether each row may begin in column 0. Otherwise the padding on its left stays.
        is_even (`bool`): whether all passes must have equally many rows, except the last one.
        multiple (`int`): the widths of passes are multiples of this.
    """

    begins_left: bool
    is_even: bool
    multiple: int

    def round(self, width: int) -> int:
        """Round `width` up to the multiple."""
        return -(-width // self.multiple) * self.multiple


def run_joined(forward_pass: ForwardPass, model: Any, inputs: PassInputs, layout: Layout) -> tuple[Any, ...]:
    """Return the outputs of `forward_pass` on rows without padding.

    The outputs `[B, T]` are 0 for padding tokens.
    """
    mask = inputs["attention_mask"]
    completion_width = inputs["logits_to_keep"]
    prompt_width = mask.size(1) - completion_width
    per_token = {name: inputs[name] for name in PER_TOKEN if inputs.get(name) is not None}
    needs_mask = bool(inputs.get("compute_aux_loss")) or not layout.begins_left
    begin, length = _find_tokens(mask, prompt_width, layout)
    of_prompt = prompt_width - begin
    passes = _plan(length, of_prompt, inputs.get("batch_size"), layout)
    parts = []
    for rows, width, kept in passes:
        places = torch.arange(width, device=mask.device)
        columns = (begin[rows, None] + places).clamp(max=mask.size(1) - 1)
        moved = {name: x[rows].gather(1, columns) for name, x in per_token.items()}
        has_token = moved["attention_mask"] * (places < length[rows, None])
        moved["attention_mask"] = has_token if needs_mask else torch.ones_like(has_token)
        outputs = forward_pass(model, **inputs | moved | {"logits_to_keep": kept, "batch_size": None})

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


def _find_tokens(mask: Tensor, prompt_width: int, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return the first column and the number of columns to keep for each of B rows, both `[B]`."""
    # The column before a completion is kept even if the prompt is empty, because it predicts the first token.
    first = mask.argmax(1).clamp(max=prompt_width - 1)
    begin = first if layout.begins_left else torch.zeros_like(first)
    end = torch.where(mask.any(1), mask.size(1) - mask.flip(1).argmax(1), 0)
    # TRL's head needs at least two columns.
    return begin, (end - begin).clamp(min=2)


def _plan(length: Tensor, of_prompt: Tensor, batch_size: int | None, layout: Layout) -> list[tuple[Tensor, int, int]]:
    """Return the rows of each pass, its width, and the number of columns on which the head runs.

    The longest rows come first. The CPU waits for the accelerator only once.
    """
    size = len(length)
    order = length.argsort(descending=True, stable=True)
    lengths, of_prompts = torch.stack([length, of_prompt])[:, order].tolist()
    passes = []
    first = 0
    for rows in order.split(_cut_rows(lengths, min(batch_size or size, size), layout.is_even)):
        last = first + len(rows)
        width = layout.round(lengths[first])
        kept = layout.round(max(width - min(of_prompts[first:last]), 1))
        passes.append((rows, width, min(kept, width - 1)))
        first = last
    return passes


def _cut_rows(lengths: list[int], batch_size: int, is_even: bool) -> list[int]:
    """Return the number of rows of each pass.

    There are as many passes as if each of them had `batch_size` rows.
    """
    count = -(-len(lengths) // batch_size)
    if is_even:
        return [batch_size] * (count - 1) + [len(lengths) - batch_size * (count - 1)]
    return cut(lengths, count, batch_size * lengths[0])


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
