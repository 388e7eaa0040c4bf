"""A step's completions change places only where the counted cost falls, and no micro-batch changes its size."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import padding
from steer_trl.trainer.forward.arrangement import Row, arrange
from steer_trl.trainer.forward.cost import Cost

COST = Cost(hidden_size=64)


def cost_of(rows, batch):
    """The least cost of a micro-batch, computed prompt by prompt."""
    total = 0
    for prompt in {rows[i].prompt for i in batch}:
        own = [rows[i] for i in batch if rows[i].prompt == prompt]
        n, lengths = own[0].prompt_length, [row.length for row in own]
        alone = COST.of_rows(n, lengths)
        total += min(alone, COST.of_shared(n, lengths)) if len(own) > 1 else alone
    return total


def split(count, ranks, batches):
    size = count // (ranks * batches)
    return [
        [list(range(first, first + size)) for first in range(begin, begin + size * batches, size)]
        for begin in range(0, count, size * batches)
    ]


def slowest(rows, of_ranks):
    return max(sum(cost_of(rows, batch) for batch in own) for own in of_ranks)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.data())
def test_each_row_is_trained_on_once(ranks, batches, size, is_packed, data):
    count = ranks * batches * size
    lengths = {prompt: data.draw(st.integers(1, 200)) for prompt in range(4)}
    draws = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200)), min_size=count, max_size=count)
    rows = [Row(prompt, lengths[prompt], length) for prompt, length in data.draw(draws)]
    arranged = arrange(rows, ranks, batches, COST, is_packed)
    if arranged is None:
        return
    assert [[len(batch) for batch in own] for own in arranged] == [[size] * batches] * ranks
    assert sorted(i for own in arranged for batch in own for i in batch) == list(range(count))
    if is_packed:
        assert slowest(rows, arranged) < slowest(rows, split(count, ranks, batches))


def test_whole_groups_come_together():
    rows = [Row(i % 4, 100, 20 + i) for i in range(32)]
    for size in (8, 16):
        (own,) = arrange(rows, 1, 32 // size, COST, True)
        assert all(len({rows[i].prompt for i in batch}) == size // 8 for batch in own)


@pytest.mark.parametrize(("ranks", "batch"), [(1, 8), (1, 16), (2, 8)])
@pytest.mark.parametrize(("prompts", "share"), [("short", 4), ("short", 8), ("chat", 4), ("4:1", 1), ("1:8", 1)])
def test_each_prompt_is_computed_about_once(monkeypatch, prompts, share, ranks, batch):
    """Positions for each token that must be computed, on the slowest rank; TRL's order has those of its tokens."""
    monkeypatch.setattr(padding, "DRAWS", 2)
    *of_trl, in_order, ordered = padding.count_positions(64, ranks, batch, share, prompts)
    assert ordered <= 1.15 and ordered <= in_order + 1e-9
    assert in_order <= min(of_trl) + 1e-9


def test_one_rank_keeps_its_order_if_nothing_is_shared():
    rows = [Row(i, 100, (37 * i) ** 2 % 499) for i in range(32)]
    assert arrange(rows, 1, 8, COST, True) is None


def test_ranks_get_equal_work():
    rows = [Row(i // 8, 50, (37 * i) ** 2 % 499) for i in range(256)]
    before = slowest(rows, split(256, 4, 8))
    arranged = arrange(rows, 4, 8, COST, True)
    mean = sum(cost_of(rows, batch) for own in arranged for batch in own) / 4
    assert slowest(rows, arranged) < 1.05 * mean < before


def test_joined_rows_of_one_length_come_together():
    rows = [Row(i % 4, 10, 5 + 50 * (i % 2)) for i in range(16)]
    (own,) = arrange(rows, 1, 4, COST, False)
    assert [len({rows[i].length for i in batch}) for batch in own] == [1] * 4


def test_the_work_grows_with_the_number_of_rows():
    """Calls of functions, of which a square would make 16 times as many."""
    calls = []
    for count in (512, 2048):
        rows = [Row(i // 8, 100, (37 * i) ** 2 % 4999) for i in range(count)]
        seen = []
        sys.setprofile(lambda _frame, event, _argument, seen=seen: seen.append(event))
        try:
            arrange(rows, 8, count // 8, COST, True)
        finally:
            sys.setprofile(None)
        calls.append(len(seen))
    assert calls[1] < 5 * calls[0]
