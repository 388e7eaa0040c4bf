"""The comparisons between tokens, against numpy's sort."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.selection import BYTES, check

from steer_trl.functional import order_statistics

token_sets = st.lists(
    st.tuples(
        st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, 1e-45]), st.booleans()
    ),
    min_size=1,
    max_size=60,
)


@given(token_sets)
def test_extremes(tokens):
    values, valid = torch.tensor([v for v, _ in tokens]), torch.tensor([m for _, m in tokens])
    kept = [np.float32(v) for v, m in tokens if m]
    assert [x.item() for x in order_statistics.extremes(values, valid)] == [
        min(kept, default=math.inf),
        max(kept, default=-math.inf),
    ]


@given(token_sets, st.floats(0, 1))
def test_quantile_selects_what_numpy_selects(tokens, q):
    values, valid = torch.tensor([v for v, _ in tokens]), torch.tensor([m for _, m in tokens])
    kept = np.array([v for v, m in tokens if m], dtype=np.float32)
    threshold = order_statistics.quantile(values, valid, q)
    if not kept.size:
        assert threshold == math.inf
        return
    expected = np.sort(kept)[math.floor(q * (kept.size - 1))]
    assert threshold == expected


@given(token_sets, st.floats(0, 1))
def test_top_fraction_is_a_sort(tokens, fraction):
    values, valid = torch.tensor([v for v, _ in tokens]), torch.tensor([m for _, m in tokens])
    kept = np.sort(np.array([v for v, m in tokens if m], dtype=np.float32))[::-1]
    k = min(len(kept), max(1, math.floor(fraction * len(kept) + 0.999999))) if fraction > 0 and len(kept) else 0
    expected = [bool(m and k and np.float32(v) >= kept[k - 1]) for v, m in tokens]
    assert (valid & (values >= order_statistics.top_threshold(values, valid, fraction))).tolist() == expected


def test_more_tokens_than_torch_quantile_takes():
    count = 2**24 + 2
    values = torch.arange(count).float()
    valid = torch.ones(count, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="too large"):
        torch.quantile(values, 0.5)
    assert order_statistics.quantile(values, valid, 0.5) == values[(count - 1) // 2]


class Threads:
    """Ranks that are threads: a reduction waits for all of them, as a collective does."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.barrier = threading.Barrier(ranks)
        self.tensors = [None] * ranks

    def run(self, work):
        with ThreadPoolExecutor(self.ranks) as pool:
            return [future.result() for future in [pool.submit(work, rank) for rank in range(self.ranks)]]

    def reduce(self, rank):
        def over(tensor, operation):
            self.tensors[rank] = tensor
            self.barrier.wait(600)
            stacked = torch.stack(self.tensors)
            self.barrier.wait(600)
            return stacked.sum(0) if operation == "sum" else stacked.amax(0)

        return over


def test_ten_thousand_cases_on_two_ranks_are_a_sort_over_all_of_them():
    ranks = Threads(2)

    def work(rank):
        return {check(case, rank, 2, ranks.reduce(rank)) for case in range(10_000)}

    # However many tokens, and whatever is in them: the same reductions of the same size on every rank.
    assert ranks.run(work) == [{BYTES}] * 2
