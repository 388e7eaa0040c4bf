"""Assigns the completions of an optimizer step to ranks and micro-batches by length.

ranks           The ranks get the completions in turn, longest first, and every second turn in reverse order. So all
                ranks compute about equally much.
micro-batches   All ranks cut their completions at the same places, because they run the model together. The cuts
                make the sum of rows x longest over the micro-batches as small as possible.
idle            Completions without an advantage come last, in micro-batches of their own if possible.
"""

from collections.abc import Sequence

import numpy as np

Places = list[int]


def assign(
    lengths: Sequence[int], is_idle: Sequence[bool], ranks: int, micro_batches: int, is_even: bool = False
) -> list[list[Places]]:
    """Return the places of the completions for each rank and each of its `micro_batches`.

    Args:
        lengths: the tokens of each completion with its prompt.
        is_idle: whether each completion adds nothing to the gradient. A micro-batch of only such ones costs little.
        ranks: the number of processes; each gets equally many completions.
        micro_batches: the number of micro-batches on every rank. Rows x longest is never above that of TRL's largest
            one, except in micro-batches of idle completions.
        is_even: whether each micro-batch must have equally many completions.
    """
    of_ranks = _take_turns(lengths, is_idle, ranks)
    rows = len(of_ranks[0])
    size = rows // micro_batches
    most = size * max(lengths)
    active = max(sum(not is_idle[place] for place in own) for own in of_ranks)
    active_batches = min(active, micro_batches - 1)
    if is_even or active == rows or active > active_batches * size:
        return _cut_alike(of_ranks, lengths, micro_batches, most, is_even)
    first = _cut_alike([own[:active] for own in of_ranks], lengths, active_batches, most)
    last = _cut_alike([own[active:] for own in of_ranks], lengths, micro_batches - active_batches, float("inf"))
    return [head + tail for head, tail in zip(first, last, strict=True)]


def _take_turns(lengths: Sequence[int], is_idle: Sequence[bool], ranks: int) -> list[Places]:
    """Give the completions to the ranks in turn: those with an advantage first, and of these the longest first."""
    order = sorted(range(len(lengths)), key=lambda place: (is_idle[place], -lengths[place]))
    laps = [order[begin : begin + ranks] for begin in range(0, len(order), ranks)]
    laps[1::2] = [lap[::-1] for lap in laps[1::2]]
    return [list(own) for own in zip(*laps, strict=True)]


def _cut_alike(
    of_ranks: list[Places], lengths: Sequence[int], parts: int, most: float, is_even: bool = False
) -> list[list[Places]]:
    """Sort the completions of every rank by length and cut all ranks at the same places."""
    if not parts:
        return [[] for _ in of_ranks]
    ordered = [sorted(own, key=lambda place: -lengths[place]) for own in of_ranks]
    longest = [max(lengths[place] for place in places) for places in zip(*ordered, strict=True)]
    sizes = [len(longest) // parts] * parts if is_even else cut(longest, parts, most)
    ends = np.cumsum(sizes).tolist()
    return [[own[end - size : end] for size, end in zip(sizes, ends, strict=True)] for own in ordered]


def cut(lengths: Sequence[int], parts: int, most: float) -> list[int]:
    """Return the sizes of `parts` consecutive parts of the `lengths`, longest first, with the least rows x longest.

    The sum of rows x longest over the parts is minimised. No part exceeds `most`, which must allow equal parts.
    This is dynamic programming: the best cuts into n + 1 parts follow from the best cuts into n parts.
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
