"""The attention of a packed row with flash attention. `decision.py` does not use it: it has not run on a GPU.

Flash attention takes sequences of different lengths in one call. Queries and keys may have different numbers of
tokens: here, the keys of a completion are those of its shared prompt and its own. The causal mask is aligned at the
lower right corner, so the last query sees all keys. Where no prompt is shared, queries and keys are the packed row.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from steer_trl.trainer.forward.attention import AttentionFunction, refuse_unknown
from steer_trl.trainer.forward.layout import Layout


def attend_with_varlen(
    function: AttentionFunction,
    layout: Layout,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return the attention `[1, L, heads, size]` of a packed row, in one call of `function` (flash attention).

    `query`, `key` and `value` are `[1, heads, L, size]`. `attention_mask` is ignored, because the layout replaces it.

    Raises `TypeError` for an argument that this function does not know.
    """
    refuse_unknown(module, others)
    layout.reads += 1
    layout.windows += sliding_window is not None
    lengths = [part.length for part in layout.parts]
    lengths_of_keys = [part.prompt_length + part.length for part in layout.parts]
    masks = layout.masks
    if "ends" not in masks:
        masks["ends"], masks["ends_of_keys"], masks["keys"] = _index(layout, lengths, lengths_of_keys, query.device)
    if lengths != lengths_of_keys:
        key = key[:, :, masks["keys"]]
        value = value[:, :, masks["keys"]]
    return function(
        module,
        query,
        key,
        value,
        None,
        scaling=scaling,
        dropout=dropout,
        sliding_window=sliding_window,
        softcap=softcap,
        s_aux=s_aux,
        is_causal=True,
        cu_seq_lens_q=masks["ends"],
        cu_seq_lens_k=masks["ends_of_keys"],
        max_length_q=max(lengths),
        max_length_k=max(lengths_of_keys),
    )


def _index(
    layout: Layout, lengths: list[int], lengths_of_keys: list[int], device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ends of the queries and of the keys of all sequences, and the places of the keys."""
    keys = []
    for part in layout.parts:
        keys += [part.prompt.places, part.places] if part.prompt is not None else [part.places]
    arrays = [
        np.cumsum([0, *lengths], dtype=np.int32),
        np.cumsum([0, *lengths_of_keys], dtype=np.int32),
        np.concatenate(keys),
    ]
    ends, ends_of_keys, places = (torch.from_numpy(array).to(device, non_blocking=True) for array in arrays)
    return ends, ends_of_keys, places
