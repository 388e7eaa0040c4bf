"""The attention of a packed row: each sequence attends to itself, and to its prompt if that is computed once.

The user's attention function is wrapped under its own name in Transformers' `AttentionInterface`. The layout of the
row comes as a keyword argument, which every layer passes on, also when gradient checkpointing runs it a second time in
the backward pass. A call without a layout, as in generation, goes to the user's function as it is. So nothing is
switched on or off, and nothing is left on the model.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from steer_trl.trainer.forward.layout import Block, Layout

LAYOUT = "packed_layout"
"""Name of the keyword argument that carries the layout to the attention."""
AttentionFunction = Callable[..., tuple[Tensor, Tensor | None]]

READ_ELSEWHERE = {
    *("position_ids", "cache_position", "cache", "past_key_values", "use_cache", "return_dict", "is_causal"),
    *("output_attentions", "output_hidden_states", "output_router_logits", "position_embeddings"),
}
"""Arguments that reach the attention of some models and do not change its result."""

_WRAPPED: set[AttentionFunction] = set()


def wrap_attention(name: str, attend_packed: Callable[..., tuple[Tensor, None]]) -> None:
    """Let Transformers' attention `name` compute packed rows with `attend_packed`. This is done once in a process."""
    function = ALL_ATTENTION_FUNCTIONS[name]
    if function in _WRAPPED:
        return

    @wraps(function)
    def attend(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        layout = kwargs.pop(LAYOUT, None)
        if layout is None:
            return function(*args, **kwargs)
        return attend_packed(function, layout, *args, **kwargs)

    AttentionInterface.register(name, attend)
    _WRAPPED.add(attend)


def attend_in_blocks(
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
    **others: Any,
) -> tuple[Tensor, None]:
    """Return the attention `[1, L, heads, size]` of a packed row, one call of `function` (SDPA) for each block.

    `query`, `key` and `value` are `[1, heads, L, size]`. `attention_mask` is ignored, because the layout replaces it.

    Raises `TypeError` for an argument that this function does not know, such as `softcap` or `s_aux`.
    """
    refuse_unknown(module, others)
    layout.reads += 1
    layout.windows += sliding_window is not None
    outputs = []
    for block in layout.blocks:
        keys = block.take(key)
        values = block.take(value)
        if block.prompts is not None:
            keys = torch.cat([block.take_prompts(key), keys], dim=2)
            values = torch.cat([block.take_prompts(value), values], dim=2)
        mask = _find_mask(layout, block, sliding_window, query.device)
        output, _ = function(
            module, block.take(query), keys, values, mask, scaling=scaling, dropout=dropout, is_causal=mask is None
        )
        outputs.append(block.give_back(output))
    return torch.cat(outputs)[None], None


def refuse_unknown(module: Any, arguments: dict[str, Any]) -> None:
    """Raise `TypeError` if the attention gets an argument that may change its result in an unknown way."""
    unknown = [name for name, x in arguments.items() if x is not None and name not in READ_ELSEWHERE]
    if unknown:
        raise TypeError(f"its attention has the argument {', '.join(unknown)}")
    if not getattr(module, "is_causal", True) or arguments.get("is_causal") is False:
        raise TypeError("its attention also reads later tokens")


def _find_mask(layout: Layout, block: Block, window: int | None, device: torch.device) -> Tensor | None:
    """Return the mask `[1, 1, width, keys]` of a block; `None` if each token attends to all tokens before it.

    The mask is the same in all layers, so it is made once.
    """
    prompt = 0 if block.prompts is None else block.prompts.size(1)
    keys = prompt + block.width
    reach = window if window is not None and keys > window else None
    if block.prompts is None and reach is None:
        return None
    name = (prompt, block.width, reach)
    if name not in layout.masks:
        distance = torch.arange(prompt, keys, device=device)[:, None] - torch.arange(keys, device=device)
        sees = distance >= 0
        if reach is not None:
            sees &= distance < reach
        layout.masks[name] = sees[None, None]
    return layout.masks[name]
