"""The comparisons between tokens, against numpy's sort."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.selection import BYTES, check

from steer_trl.shaping import order_statistics


@settings(max_examples=1000)
@given(st.integers(0, 2**31))
def test_order_statistics_equal_a_sort(case):
    check(case, 0, 1, order_statistics.this_process)


def test_more_tokens_than_torch_quantile_takes():
    count = 2**24 + 2
    values = torch.arange(count).float()
    valid = torch.ones(count, dtype=torch.bool)
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


def test_two_ranks_equal_a_global_sort():
    ranks = Threads(2)

    def work(rank):
        return {check(case, rank, 2, ranks.reduce(rank)) for case in range(10_000)}

    # However many tokens, and whatever is in them: the same reductions of the same size on every rank.
    assert ranks.run(work) == [{BYTES}] * 2
