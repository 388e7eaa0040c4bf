"""Arranges the completions of an optimizer step in micro-batches, each of which keeps its number of rows.

Completions of the same prompt come together if it is cheaper to compute their prompt once. These groups are placed one
after the other, the largest and most expensive first, each into the micro-batch with the least work that has room for
it. So all micro-batches get about the same amount of work. Those with the most work come first, so a step that does
not fit into memory fails immediately. All ranks train on micro-batches of about the same work at the same time.

If rows are only moved to the left (`forward/joined.py`), a micro-batch costs as much as its longest row in each of its
rows. Then rows of about the same length come together.
"""

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from steer_trl.trainer.forward.cost import Cost

LEAST_GAIN = 0.01
"""The share of the work of the slowest rank that another order must save."""
MicroBatches = list[list[list[int]]]
"""The rows of each rank's micro-batches."""


class Row(NamedTuple):
    """A completion: a number that completions of the same prompt share, and the lengths of both in tokens."""

    prompt: int
    prompt_length: int
    length: int


def arrange(rows: Sequence[Row], ranks: int, count: int, cost: Cost, is_packed: bool) -> MicroBatches | None:
    """Return the indices of the rows of each rank's `count` micro-batches. The result is `None` if TRL's order stays.

    `rows` are in TRL's order: those of the first rank's micro-batches, then those of the next rank's.
    """
    size = len(rows) // (ranks * count)
    order = list(range(len(rows)))
    as_it_is = [order[first : first + size] for first in range(0, len(order), size)]
    batches = _fill_by_prompts(rows, size, cost) if is_packed else _fill_by_lengths(rows, size)
    works = [_find_work(rows, batch, cost, is_packed) for batch in batches]
    by_work = sorted(range(len(batches)), key=lambda i: -works[i])
    of_ranks: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0.0] * ranks
    for first in range(0, len(by_work), ranks):
        # Of the micro-batches of one moment, the rank with the least work so far gets the one with the most.
        by_load = sorted(range(ranks), key=lambda rank: loads[rank])
        for rank, i in zip(by_load, by_work[first : first + ranks], strict=True):
            of_ranks[rank].append(i)
            loads[rank] += works[i]
    before = [_find_work(rows, batch, cost, is_packed) for batch in as_it_is]
    slowest_before = max(sum(before[first : first + count]) for first in range(0, len(before), count))
    if max(loads) > (1 - LEAST_GAIN) * slowest_before:
        return None
    return [[batches[i] for i in own] for own in of_ranks]


def _find_work(rows: Sequence[Row], batch: Sequence[int], cost: Cost, is_packed: bool) -> float:
    """Return the cost of a micro-batch."""
    if not is_packed:
        return len(batch) * cost.of_sequence(max(rows[i].prompt_length + rows[i].length for i in batch))
    return sum(_find_cost(rows, group, cost)[0] for group in _group_by_prompt(rows, batch))


def _find_cost(rows: Sequence[Row], group: Sequence[int], cost: Cost) -> tuple[float, bool]:
    """Return the cost of rows with the same prompt, and whether the prompt is computed once."""
    prompt = rows[group[0]].prompt_length
    if len(group) == 1:
        return cost.of_sequence(prompt + rows[group[0]].length), False
    lengths = [rows[i].length for i in group]
    alone = cost.of_rows(prompt, lengths)
    shared = cost.of_shared(prompt, lengths)
    return min(alone, shared), shared < alone


def _group_by_prompt(rows: Sequence[Row], batch: Sequence[int]) -> list[list[int]]:
    if len(batch) == 1:
        return [list(batch)]
    groups = defaultdict(list)
    for i in batch:
        groups[rows[i].prompt].append(i)
    return list(groups.values())


def _fill_by_lengths(rows: Sequence[Row], size: int) -> list[list[int]]:
    order = sorted(range(len(rows)), key=lambda i: -(rows[i].prompt_length + rows[i].length))
    return [order[first : first + size] for first in range(0, len(order), size)]


def _fill_by_prompts(rows: Sequence[Row], size: int, cost: Cost) -> list[list[int]]:
    """Return micro-batches of `size` rows of about the same work, with completions of the same prompt together."""
    pieces = []
    for group in _group_by_prompt(rows, range(len(rows))):
        is_shared = size > 1 and _find_cost(rows, group, cost)[1]
        step = size if is_shared else 1
        pieces += [group[first : first + step] for first in range(0, len(group), step)]
    works = [_find_cost(rows, piece, cost)[0] for piece in pieces]
    batches: list[list[int]] = [[] for _ in range(len(rows) // size)]
    # For each number of free rows, the micro-batches that have as many, the one with the least work first.
    of_room: list[list[tuple[float, int]]] = [[] for _ in range(size + 1)]
    of_room[size] = [(0.0, i) for i in range(len(batches))]
    for k in sorted(range(len(pieces)), key=lambda k: (-len(pieces[k]), -works[k])):
        piece = pieces[k]
        work_of_row = works[k] / len(piece)
        while piece:
            rooms = [room for room in range(len(piece), size + 1) if of_room[room]]
            # If no micro-batch has room for the whole piece, it is divided.
            room = min(rooms, key=lambda room: of_room[room][0]) if rooms else _find_largest(of_room)
            work, i = heapq.heappop(of_room[room])
            placed = piece[:room]
            piece = piece[room:]
            batches[i] += placed
            heapq.heappush(of_room[room - len(placed)], (work + work_of_row * len(placed), i))
    return batches


def _find_largest(of_room: Sequence[Sequence[object]]) -> int:
    return max(room for room, batches in enumerate(of_room) if batches)
