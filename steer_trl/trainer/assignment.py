"""Which completion of an optimizer step goes to which rank and micro-batch, by their lengths alone.

ranks           the completions go to the ranks back and forth, the longest first, so that all compute alike
micro-batches   each rank cuts its own where rows x longest is least, and all ranks cut alike: they pass the model
                together
idle            completions without an advantage come last, in micro-batches of their own
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
        is_idle: whether a completion adds nothing to the gradient. A micro-batch of these alone is worth having.
        ranks: the number of processes; each gets equally many completions.
        micro_batches: how many every rank has. None of them is larger than the longest would be among TRL's.
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
    """Give the completions to the ranks back and forth: those with an advantage first, and the longest of them."""
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
    """Return how many of the `lengths`, longest first, each part takes, so that the sum of rows x longest is least.

    No part has rows x longest above `most`, which must allow equal parts. The best cut of the first rows into one
    part more is found from the best cuts into one part less.
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
