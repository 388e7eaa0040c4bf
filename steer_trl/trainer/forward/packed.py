"""Runs TRL's forward pass on one row without padding.

TRL's own function, head and loss stay as they are. They are given the packed row instead of the padded rows, and a
model that adds the row's positions and layout. The results are moved back to `[B, T]`.

The mask of TRL's pass says which tokens the model sees. If it has holes, that is, zeros in the middle of a row, these
rows are computed by TRL's padded pass.
"""

from typing import Any

import torch
from torch import Tensor

from steer_trl.trainer.forward.attention import LAYOUT
from steer_trl.trainer.forward.cost import Cost
from steer_trl.trainer.forward.layout import Layout, has_holes, make_layout
from steer_trl.trainer.inputs import ForwardPass, PassInputs, take_rows


def run_packed(
    forward_pass: ForwardPass, model: Any, inputs: PassInputs, cost: Cost, multiple: int | None
) -> tuple[Any, ...]:
    """Return the outputs of `forward_pass` on one packed row for each `batch_size` rows.

    The outputs `[B, T]` are 0 for padding tokens. The lengths of packed rows are multiples of `multiple`, if given.
    Every rank calls the model as often as in TRL's pass. The CPU waits for the accelerator once.
    """
    ids = inputs["input_ids"]
    of_rows, masks = torch.stack([ids, inputs["attention_mask"].to(ids.dtype)]).cpu().numpy()
    size = inputs.get("batch_size") or len(ids)
    prompt_width = ids.size(1) - inputs["logits_to_keep"]
    parts = []
    for first in range(0, len(ids), size):
        rows = slice(first, first + size)
        own = take_rows(inputs, rows) | {"batch_size": None}
        if has_holes(masks[rows], prompt_width):
            parts.append(forward_pass(model, **own))
        else:
            layout = make_layout(of_rows[rows], masks[rows], prompt_width, cost, multiple or 1, ids.device)
            parts.append(_run_row(forward_pass, model, own, layout))
    return tuple(_join(of_parts) for of_parts in zip(*parts, strict=True))


def _run_row(forward_pass: ForwardPass, model: Any, inputs: PassInputs, layout: Layout) -> tuple[Any, ...]:
    ids = inputs["input_ids"]
    # Models build no mask of their own if they are given one of four dimensions.
    no_mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=ids.device)
    of_row = {"attention_mask": no_mask, "position_ids": layout.positions[None], LAYOUT: layout}
    packed = {
        "input_ids": ids.flatten()[layout.source][None],
        "attention_mask": layout.is_scored[None],
        "logits_to_keep": layout.length - 1,
    }
    outputs = forward_pass(lambda **arguments: model(**arguments | of_row), **inputs | packed)
    check_reads(layout, model)

    completion_width = inputs["logits_to_keep"]
    is_token = inputs["attention_mask"][:, -completion_width:].bool()
    # The output before a token belongs to it.
    places = layout.first_places[:, None] - 1 + torch.arange(completion_width, device=ids.device)
    places = places.clamp(min=0, max=layout.length - 2)
    return tuple(
        torch.where(is_token, x[0][places], 0.0) if isinstance(x, Tensor) and x.dim() == 2 else x for x in outputs
    )


def check_reads(layout: Layout, model: Any) -> None:
    """Raise `RuntimeError` if a layer's attention has not read the layout, or not with its sliding window."""
    config = getattr(model, "module", model).config.get_text_config()
    layers = config.num_hidden_layers
    kinds = getattr(config, "layer_types", None) or []
    has_window = getattr(config, "sliding_window", None) is not None
    sliding = kinds.count("sliding_attention") if kinds else layers * has_window
    if layout.reads != layers or layout.windows != sliding:
        raise RuntimeError(
            f"{layout.reads} of its {layers} layers computed a packed row, {layout.windows} of {sliding} with a "
            "sliding window"
        )


def _join(parts: tuple[Any, ...]) -> Any:
    """Join an output `[B, T]` of several passes. Scalars are averaged, as in TRL."""
    if parts[0] is None:
        return None
    return torch.cat(parts) if parts[0].dim() == 2 else torch.stack(parts).mean()
