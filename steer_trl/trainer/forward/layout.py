"""The packed row of some completions: which token is where, and which tokens belong together in attention.

The row has no padding. A *sequence* is a part of it whose tokens attend to themselves and to those before them:

    prompt A | prompt B, completion | prompt C, completion | end of A, completion | end of A, completion

- If no other completion has its prompt, a prompt and its completion are one sequence.
- A prompt that several completions share is a sequence of its own, without its last token. Each of these completions
  is a sequence that begins with that last token, which predicts its first token. It also attends to the prompt's
  sequence. This is done where the counted cost (`cost.py`) is lower.

Sequences of about the same length form a *block*, whose attention is one call. A block may only hold sequences whose
prompts are equally long, so that one mask serves them all. The longest come first. A block ends when its padding has
cost as much as another call.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steer_trl.trainer.forward.cost import PAIRS_OF_A_CALL, Cost


@dataclass
class Part:
    """A sequence of the packed row: `length` tokens of a `row`, from the column `column` on.

    `position` is that of its first token. `prompt` is the sequence that its tokens also attend to. `begin` is its
    first place in the packed row.
    """

    row: int
    column: int
    length: int
    position: int = 0
    prompt: "Part | None" = None
    begin: int = 0

    @property
    def prompt_length(self) -> int:
        """The number of tokens of the shared prompt."""
        return self.prompt.length if self.prompt is not None else 0

    @property
    def places(self) -> np.ndarray:
        """The places of its tokens in the packed row."""
        return self.begin + np.arange(self.length)


@dataclass(frozen=True)
class Block:
    """Sequences that attention computes in one call: `count` of at most `width` tokens.

    They are the places from `begin` to `end` of the packed row, one after the other.

    Attributes:
        index: places `[count, width]` in the packed row, with padding on the right; `None` if there is no padding.
        tokens: the indices of the tokens in `index.flatten()`.
        prompts: places `[count, prompt]` of the prompts in the packed row; `None` if there are no shared prompts.
    """

    begin: int
    end: int
    count: int
    width: int
    index: Tensor | None
    tokens: Tensor | None
    prompts: Tensor | None

    def take(self, x: Tensor) -> Tensor:
        """Return the block's `[count, heads, width, size]` of a packed row `[1, heads, tokens, size]`."""
        if self.index is not None:
            return x[0][:, self.index].transpose(0, 1)
        return x[0, :, self.begin : self.end].unflatten(1, (self.count, self.width)).transpose(0, 1)

    def take_prompts(self, x: Tensor) -> Tensor:
        """Return the `[count, heads, prompt, size]` of the prompts in a packed row `[1, heads, tokens, size]`."""
        return x[0][:, self.prompts].transpose(0, 1)

    def give_back(self, x: Tensor) -> Tensor:
        """Return the tokens `[tokens, heads, size]` of the block's `[count, width, heads, size]`."""
        flat = x.flatten(0, 1)
        return flat if self.tokens is None else flat[self.tokens]


class Layout:
    """A packed row of L tokens, which passes through the model as a keyword argument.

    It is not a dataclass, because FSDP copies dataclasses among the arguments of each module. Attention would then
    count its reads on a copy, and make its masks anew in each layer.

    Attributes:
        parts: the sequences, in the order of their tokens.
        blocks: the sequences that attention computes together.
        source: for each token its index in the flattened `[B, columns]` of the rows, `[L]`.
        positions: the position of each token in its own row, `[L]`.
        is_scored: whether a token belongs to a completion that it does not begin with, `[L]`.
        first_places: the place of each row's first completion token, `[B]`; 0 for rows without any.
        reads: how often attention has used the layout.
        windows: how often it did so with a sliding window.
        masks: what attention has made of the layout, for its next layers.
    """

    def __init__(
        self,
        parts: list[Part],
        blocks: list[Block],
        source: Tensor,
        positions: Tensor,
        is_scored: Tensor,
        first_places: Tensor,
    ) -> None:
        self.parts = parts
        self.blocks = blocks
        self.source = source
        self.positions = positions
        self.is_scored = is_scored
        self.first_places = first_places
        self.reads = 0
        self.windows = 0
        self.masks: dict[Any, Tensor] = {}

    @property
    def length(self) -> int:
        """The number of positions that the model computes."""
        return len(self.source)


def has_holes(mask: np.ndarray, prompt_width: int) -> bool:
    """Return whether the mask `[B, columns]` is anything else than a prompt on the right and a completion on the left.

    An empty prompt counts as a hole, too.
    """
    prompts = mask[:, :prompt_width].astype(bool)
    completions = mask[:, prompt_width:].astype(bool)
    falls = (prompts[:, :-1] & ~prompts[:, 1:]).any()
    rises = (~completions[:, :-1] & completions[:, 1:]).any()
    return bool(falls or rises or not prompts[:, -1].all())


def find_parts(ids: np.ndarray, mask: np.ndarray, prompt_width: int, cost: Cost) -> list[Part]:
    """Return the sequences of the rows `[B, columns]`. Rows without a completion are left out, if there are others."""
    prompts = mask[:, :prompt_width].sum(1).tolist()
    completions = mask[:, prompt_width:].sum(1).tolist()
    groups = defaultdict(list)
    for row, completion in enumerate(completions):
        if completion:
            groups[ids[row, prompt_width - prompts[row] : prompt_width].tobytes()].append(row)
    parts = []
    for rows in groups.values():
        prompt = prompts[rows[0]]
        lengths = [completions[row] for row in rows]
        if len(rows) > 1 and cost.of_shared(prompt, lengths) < cost.of_rows(prompt, lengths):
            shared = Part(rows[0], prompt_width - prompt, prompt - 1)
            parts.append(shared)
            parts += [
                Part(row, prompt_width - 1, 1 + length, prompt - 1, shared)
                for row, length in zip(rows, lengths, strict=True)
            ]
        else:
            parts += [
                Part(row, prompt_width - prompt, prompt + length) for row, length in zip(rows, lengths, strict=True)
            ]
    # Every rank must run the model, and TRL's head needs two positions.
    return parts or [Part(0, prompt_width - 1, 2)]


def make_layout(
    ids: np.ndarray, mask: np.ndarray, prompt_width: int, cost: Cost, multiple: int, device: torch.device
) -> Layout:
    """Return the packed row of the rows `[B, columns]`, whose length is a multiple of `multiple`."""
    parts = find_parts(ids, mask, prompt_width, cost)
    columns = mask.shape[1]
    # Copies of a prompt's columns, which nobody reads, fill the row up.
    missing = -sum(part.length for part in parts) % multiple
    while missing:
        filler = Part(0, 0, min(missing, prompt_width))
        parts.append(filler)
        missing -= filler.length
    blocks = list(_group(parts))
    parts = [part for block in blocks for part in block]
    begin = 0
    for part in parts:
        part.begin = begin
        begin += part.length

    first_places = np.zeros(len(mask), dtype=np.int64)
    is_scored = np.zeros(begin, dtype=np.int64)
    for part in parts:
        before = prompt_width - part.column
        if 0 < before < part.length:
            first_places[part.row] = part.begin + before
            is_scored[part.begin + before : part.begin + part.length] = 1
    source = np.concatenate([part.row * columns + part.column + np.arange(part.length) for part in parts])
    positions = np.concatenate([part.position + np.arange(part.length) for part in parts])
    if not mask[:, prompt_width:].any():
        is_scored[:] = 0
    of_blocks = [array for block in blocks for array in _index(block)]
    first, *rest = _send([source, positions, is_scored, first_places, *of_blocks], device)
    return Layout(
        parts=parts,
        source=first,
        positions=rest[0],
        is_scored=rest[1],
        first_places=rest[2],
        blocks=[
            Block(
                begin=block[0].begin,
                end=block[-1].begin + block[-1].length,
                count=len(block),
                width=block[0].length,
                index=index,
                tokens=tokens,
                prompts=prompts,
            )
            for block, index, tokens, prompts in zip(blocks, rest[3::3], rest[4::3], rest[5::3], strict=True)
        ],
    )


def _group(parts: list[Part]) -> Iterator[list[Part]]:
    """Yield the sequences of each block. Those without a shared prompt come first, and the longest before others."""
    block: list[Part] = []
    padding = 0
    for part in sorted(parts, key=lambda part: (part.prompt is not None, -part.prompt_length, -part.length)):
        if block:
            first = block[0]
            padding += (first.prompt_length + first.length) * first.length
            padding -= (part.prompt_length + part.length) * part.length
            is_alike = part.prompt_length == first.prompt_length and (part.prompt is None) == (first.prompt is None)
            if not is_alike or padding > PAIRS_OF_A_CALL:
                yield block
                block = []
                padding = 0
        block.append(part)
    yield block


def _index(block: list[Part]) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Return `index`, `tokens` and `prompts` of a [`Block`]."""
    index = tokens = prompts = None
    width = block[0].length
    if block[-1].length < width:
        columns = np.arange(width)
        lengths = np.array([part.length for part in block])[:, None]
        begins = np.array([part.begin for part in block])[:, None]
        index = begins + np.minimum(columns, lengths - 1)
        tokens = np.flatnonzero(columns < lengths)
    if block[0].prompt is not None:
        prompts = np.stack([part.prompt.places for part in block if part.prompt is not None])
    return index, tokens, prompts


def _send(arrays: Sequence[np.ndarray | None], device: torch.device) -> list[Any]:
    """Send arrays of integers to the `device`, all of them in one copy. `None` stays `None`."""
    present = [array for array in arrays if array is not None]
    buffer = torch.from_numpy(np.concatenate([array.reshape(-1) for array in present])).to(device, non_blocking=True)
    pieces = iter(buffer.split([array.size for array in present]))
    return [None if array is None else next(pieces).view(array.shape) for array in arrays]
