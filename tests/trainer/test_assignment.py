"""Completions go to ranks and micro-batches so that little padding is left."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from steer_trl.trainer.assignment import assign, cut

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=9)


def area(lengths, sizes):
    ends = list(itertools.accumulate(sizes))
    return sum(size * max(lengths[end - size : end]) for size, end in zip(sizes, ends, strict=True))


def possible_cuts(rows, parts):
    for ends in itertools.combinations(range(1, rows), parts - 1):
        bounds = [0, *ends, rows]
        yield [b - a for a, b in itertools.pairwise(bounds)]


@given(LENGTHS, st.data())
@settings(deadline=None)
def test_no_other_cut_is_smaller(lengths, data):
    lengths = sorted(lengths, reverse=True)
    parts = data.draw(st.integers(1, len(lengths)))
    most = -(-len(lengths) // parts) * lengths[0]
    sizes = cut(lengths, parts, most)
    allowed = [one for one in possible_cuts(len(lengths), parts) if largest(lengths, one) <= most]
    assert sum(sizes) == len(lengths) and sizes in allowed
    assert area(lengths, sizes) == min(area(lengths, one) for one in allowed)


def largest(lengths, sizes):
    ends = itertools.accumulate(sizes)
    return max(size * lengths[end - size] for size, end in zip(sizes, ends, strict=True))


def test_equal_lengths_are_cut_evenly():
    assert cut([7] * 12, 4, 3 * 7) == [3] * 4


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.data())
@settings(deadline=None)
def test_each_completion_is_trained_on_once(ranks, size, micro_batches, data):
    count = ranks * size * micro_batches
    lengths = data.draw(st.lists(st.integers(1, 50), min_size=count, max_size=count))
    of_ranks = assign(lengths, ranks, micro_batches)
    assert sorted(place for own in of_ranks for one in own for place in one) == list(range(count))
    sizes = [[len(one) for one in own] for own in of_ranks]
    assert len(sizes) == ranks and all(own == sizes[0] for own in sizes)
    assert len(sizes[0]) == micro_batches and min(sizes[0]) > 0
    for one in zip(*of_ranks, strict=True):
        places = [place for of_rank in one for place in of_rank]
        assert len(one[0]) * max(lengths[place] for place in places) <= size * max(lengths)


def test_ranks_compute_about_as_much():
    lengths = [1 + (37 * place) ** 2 % 997 for place in range(128)]
    of_ranks = assign(lengths, 4, 8)
    work = [sum(len(one) * max(lengths[place] for place in one) for one in own) for own in of_ranks]
    assert max(work) < 1.05 * sum(work) / 4
