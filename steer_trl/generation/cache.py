"""Layers of a cache that grow in place.

Transformers' layers join all keys and values with those of each new token, so that writing T tokens copies the cache
T times. These layers have room for the next tokens, so that the cache is copied once every `ROOM` tokens. Layers with
a sliding window forget the same tokens as Transformers' layers.
"""

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

ROOM = 128
"""The number of tokens for which memory is reserved each time."""


class GrowingTensor:
    """A tensor `[B, H, T, D]` to which tokens are appended in place, and from which the first ones can be dropped."""

    def __init__(self, filled: Tensor, most: int) -> None:
        """Begin with the `filled` tokens. At most `most` tokens will be appended."""
        self._memory = filled
        self._most = most
        self._begin = 0
        self._end = filled.size(2)

    @property
    def tokens(self) -> Tensor:
        """The tokens `[B, H, T, D]`, as a view of the reserved memory."""
        return self._memory[:, :, self._begin : self._end]

    def append(self, tokens: Tensor) -> Tensor:
        """Append `tokens` `[B, H, t, D]`, and return all tokens."""
        end = self._end + tokens.size(2)
        if end > self._memory.size(2):
            self._reserve(max(tokens.size(2), min(ROOM, self._most)))
            end = self._end + tokens.size(2)
        self._memory[:, :, self._end : end] = tokens
        self._end = end
        self._most -= tokens.size(2)
        return self.tokens

    def keep_last(self, count: int) -> Tensor:
        """Drop all tokens but the last `count`, and return those."""
        self._begin = max(self._begin, self._end - count)
        return self.tokens

    def select(self, rows: Tensor) -> Tensor:
        """Keep only these `rows` `[b]` of the batch, and return their tokens."""
        self._memory = self._memory[rows]
        return self.tokens

    def _reserve(self, count: int) -> None:
        """Move the tokens to new memory, which has room for `count` more."""
        tokens = self.tokens
        batch, heads, length, size = tokens.shape
        self._memory = tokens.new_empty(batch, heads, length + count, size)
        self._memory[:, :, :length] = tokens
        self._begin = 0
        self._end = length


class Growing:
    """Keys and values that grow in place. It stands before the layer of Transformers whose place it takes."""

    keys: Tensor | None
    values: Tensor | None

    def _fill(self, layer: DynamicLayer, rows: Tensor, most: int) -> None:
        """Start with the `rows` `[B]` of a `layer`'s batch, and leave room for `most` further tokens."""
        assert layer.keys is not None and layer.values is not None
        # The layers of a model may be on several devices.
        rows = rows.to(layer.keys.device)
        self._all_keys = GrowingTensor(layer.keys[rows], most)
        self._all_values = GrowingTensor(layer.values[rows], most)
        self.keys = self._all_keys.tokens
        self.values = self._all_values.tokens

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only the rows `indices` `[b]` of the batch."""
        assert self.keys is not None
        indices = indices.to(self.keys.device)
        self.keys = self._all_keys.select(indices)
        self.values = self._all_values.select(indices)


class GrowingLayer(Growing, DynamicLayer):
    """A layer of a cache that grows in place by at most `most` tokens, filled with the `rows` of a `layer`'s batch."""

    def __init__(self, layer: DynamicLayer, rows: Tensor, most: int) -> None:
        super().__init__()
        assert layer.keys is not None and layer.values is not None
        self.lazy_initialization(layer.keys, layer.values)
        self._fill(layer, rows, most)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append the keys and values `[B, H, t, D]` of new tokens. Return the keys and values of all tokens."""
        self.keys = self._all_keys.append(key_states)
        self.values = self._all_values.append(value_states)
        return self.keys, self.values


class GrowingWindow(Growing, DynamicSlidingWindowLayer):
    """A layer as [`GrowingLayer`], with a sliding window."""

    def __init__(self, layer: DynamicSlidingWindowLayer, rows: Tensor, most: int) -> None:
        super().__init__(layer.sliding_window)
        assert layer.keys is not None and layer.values is not None
        self.lazy_initialization(layer.keys, layer.values)
        self.cumulative_length = layer.cumulative_length
        self._fill(layer, rows, most)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append the keys and values `[B, H, t, D]` of new tokens.

        Return the keys and values of the window and of the new tokens.
        """
        self.cumulative_length += key_states.size(2)
        all_keys = self._all_keys.append(key_states)
        all_values = self._all_values.append(value_states)
        # The next token sees itself and `sliding_window - 1` tokens before it.
        self.keys = self._all_keys.keep_last(self.sliding_window - 1)
        self.values = self._all_values.keep_last(self.sliding_window - 1)
        return all_keys, all_values


LAYERS: dict[type, type] = {DynamicLayer: GrowingLayer, DynamicSlidingWindowLayer: GrowingWindow}
"""The layer that replaces each of Transformers' layers. The others keep more than keys and values."""


def can_grow(cache: Any) -> bool:
    """Return whether the `cache` is Transformers' default one, and each of its layers has a replacement."""
    if type(cache) is not DynamicCache or cache.offloading:
        return False
    layers: list[Any] = [type(layer) for layer in cache.layers] or [cache.layer_class_to_replicate]
    return all(layer in LAYERS for layer in layers)


def repeat_rows(cache: DynamicCache, rows: Tensor, most: int) -> None:
    """Fill the `cache` with the given `rows` `[B]` of its batch, and let it grow in place by at most `most` tokens."""
    # A layer that shares another layer's keys and values stays empty.
    layers: list[Any] = cache.layers
    cache.layers = [LAYERS[type(layer)](layer, rows, most) if layer.is_initialized else layer for layer in layers]
