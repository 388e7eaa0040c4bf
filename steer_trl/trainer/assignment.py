"""Assigns the completions of an optimizer step to ranks and micro-batches by length.

ranks           The completions are given to the ranks in turn, longest first. Every second round goes through the
                ranks in reverse order, so that all ranks have about the same amount of work.
micro-batches   All ranks cut their completions at the same places, because they run the model together. The cost of a
                micro-batch is its number of rows x the length of its longest row. The cuts minimise the sum of these
                costs.
"""

from collections.abc import Sequence

import numpy as np

Places = list[int]


def assign(lengths: Sequence[int], ranks: int, micro_batches: int) -> list[list[Places]]:
    """Assign the completions to ranks and micro-batches. Return their indices for each rank and micro-batch.

    Args:
        lengths: the number of tokens of each completion and its prompt together.
        ranks: the number of processes; each gets equally many completions.
        micro_batches: the number of micro-batches on every rank. No micro-batch costs more (rows x longest row) than
            the largest one in TRL's own split.
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    rounds = [order[begin : begin + ranks] for begin in range(0, len(order), ranks)]
    longest = [lengths[places[0]] for places in rounds]
    rounds[1::2] = [places[::-1] for places in rounds[1::2]]
    most = len(rounds) // micro_batches * longest[0]
    sizes = cut(longest, micro_batches, most)
    ends = np.cumsum(sizes).tolist()
    own_places = [list(places) for places in zip(*rounds, strict=True)]
    return [[own[end - size : end] for size, end in zip(sizes, ends, strict=True)] for own in own_places]


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
