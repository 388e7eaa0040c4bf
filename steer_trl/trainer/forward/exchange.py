"""Sends each row of a rollout to the rank that trains on it. No rank holds more rows than its own.

All columns of a row are joined to one string of bytes, so that one collective sends them all.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Columns = Mapping[str, Tensor]

PADDING = {"importance_sampling_ratio": 1}
"""The values of padding tokens, for columns in which they are not 0."""


def send_rows(
    columns: Columns, widths: Sequence[int], wanted: Sequence[Sequence[int]], rank: int
) -> dict[str, Tensor]:
    """Return the columns of the rows that this rank wants, in that order. Collective.

    `columns` has this rank's n rows, which are numbered from n x `rank`. `wanted` has the numbers of the rows of each
    rank, and `widths` the largest number of tokens in each of the columns on all ranks; narrower ones are padded.
    """
    padded = {name: _pad(name, x, width) for (name, x), width in zip(columns.items(), widths, strict=True)}
    count = len(next(iter(padded.values())))
    device = next(iter(padded.values())).device
    first = rank * count
    sent = [[row - first for row in rows if row // count == rank] for rows in wanted]
    own = wanted[rank]
    received = [[place for place, row in enumerate(own) if row // count == source] for source in range(len(wanted))]
    chosen = torch.tensor(list(chain(*sent)), dtype=torch.long, device=device)
    places = torch.tensor(list(chain(*received)), dtype=torch.long, device=device)

    bytes_of = {name: x.reshape(count, -1).contiguous().view(torch.uint8) for name, x in padded.items()}
    outgoing = torch.cat(list(bytes_of.values()), dim=1)[chosen]
    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing, list(map(len, received)), list(map(len, sent)))
    incoming = incoming[places.argsort()]
    pieces = incoming.split([x.size(1) for x in bytes_of.values()], dim=1)
    return {
        name: piece.contiguous().view(x.dtype).view(x.shape)
        for (name, x), piece in zip(padded.items(), pieces, strict=True)
    }


def _pad(name: str, column: Tensor, width: int) -> Tensor:
    """Pad a column `[n, tokens]` to `width` tokens, prompts on the left."""
    if column.dim() < 2 or column.size(1) == width:
        return column
    missing: Any = (width - column.size(1), 0) if name.startswith("prompt_") else (0, width - column.size(1))
    after = (0, 0) * (column.dim() - 2)
    return torch.nn.functional.pad(column, (*after, *missing), value=PADDING.get(name, 0))
