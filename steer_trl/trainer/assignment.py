"""Assigns the completions of an optimizer step to ranks and micro-batches by length.

ranks           The completions are given to the ranks in turn, longest first. Every second round goes through the
                ranks in reverse order, so that all ranks have about the same amount of work.
micro-batches   All ranks cut their completions at the same places, because they run the model together. The cost of a
                micro-batch is its number of rows x the length of its longest row. The cuts minimise the sum of these
                costs.
idle            Completions with an advantage of 0 come last, in micro-batches of their own if possible.
"""

from collections.abc import Sequence

import numpy as np

Places = list[int]


def assign(lengths: Sequence[int], is_idle: Sequence[bool], ranks: int, micro_batches: int) -> list[list[Places]]:
    """Assign the completions to ranks and micro-batches. Return their indices for each rank and micro-batch.

    Args:
        lengths: the number of tokens of each completion and its prompt together.
        is_idle: whether each completion adds nothing to the gradient. A micro-batch of idle completions costs little.
        ranks: the number of processes; each gets equally many completions.
        micro_batches: the number of micro-batches on every rank. Except for those of idle completions, no micro-batch
            costs more (rows x longest row) than the largest one in TRL's own split.
    """
    of_ranks = _take_turns(lengths, is_idle, ranks)
    rows = len(of_ranks[0])
    size = rows // micro_batches
    most = size * max(lengths)
    active = max(sum(not is_idle[place] for place in own) for own in of_ranks)
    active_batches = min(active, micro_batches - 1)
    if active == rows or active > active_batches * size:
        return _cut_alike(of_ranks, lengths, micro_batches, most)
    first = _cut_alike([own[:active] for own in of_ranks], lengths, active_batches, most)
    last = _cut_alike([own[active:] for own in of_ranks], lengths, micro_batches - active_batches, float("inf"))
    return [head + tail for head, tail in zip(first, last, strict=True)]


def _take_turns(lengths: Sequence[int], is_idle: Sequence[bool], ranks: int) -> list[Places]:
    """Give the completions to the ranks in turn, the longest first and idle completions after all others."""
    order = sorted(range(len(lengths)), key=lambda place: (is_idle[place], -lengths[place]))
    laps = [order[begin : begin + ranks] for begin in range(0, len(order), ranks)]
    laps[1::2] = [lap[::-1] for lap in laps[1::2]]
    return [list(own) for own in zip(*laps, strict=True)]


def _cut_alike(of_ranks: list[Places], lengths: Sequence[int], parts: int, most: float) -> list[list[Places]]:
    """Sort each rank's completions by length, and cut them into parts at the same places on all ranks."""
    if not parts:
        return [[] for _ in of_ranks]
    ordered = [sorted(own, key=lambda place: -lengths[place]) for own in of_ranks]
    longest = [max(lengths[place] for place in places) for places in zip(*ordered, strict=True)]
    sizes = cut(longest, parts, most)
    ends = np.cumsum(sizes).tolist()
    return [[own[end - size : end] for size, end in zip(sizes, ends, strict=True)] for own in ordered]


def cut(lengths: Sequence[int], parts: int, most: float) -> list[int]:
    """Cut rows with these `lengths`, sorted from the longest to the shortest, into consecutive parts.

    Return the number of rows in each part.

    The cost of a part is rows x longest row. The sum of the costs is minimised. No part costs more than `most`, which
    must be large enough for equal parts. Dynamic programming computes the best cuts into n + 1 parts from the best
    cuts into n parts.
    """
    rows = len(lengths)
    begins = np.arange(rows)[:, None]
    ends = np.arange(rows + 1)[None, :]
    area = (ends - begins) * np.maximum(np.asarray(lengths, dtype=float), 1.0)[:, None]
    area[(ends <= begins) | (area > most)] = np.inf
    least = np.full(rows + 1, np.inf)
    least[0] = 0.0
    begins_of_last = []
    for _ in range(parts):
        total = least[:-1, None] + area
        begins_of_last.append(total.argmin(0))
        least = total.min(0)
    sizes: list[int] = []
    end = rows
    for begin_of in reversed(begins_of_last):
        begin = int(begin_of[end])
        sizes.insert(0, end - begin)
        end = begin
    return sizes
