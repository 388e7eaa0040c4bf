"""Counts the bytes that the statistics of a step send between ranks, with 10^3 to 10^7 tokens per rank.

    python benchmarks/reductions.py

The numbers of reductions (rounds) and bytes do not grow with the number of tokens. Seconds are those of a single rank
on one core.
"""

import time
from collections.abc import Callable

import torch
from pandas import DataFrame
from torch import Tensor

from steer_trl.functional import stare_statistic, steer_statistic
from steer_trl.shaping import order_statistics
from steer_trl.shaping.order_statistics import Reduce

STATISTICS: dict[str, Callable[[Tensor, Tensor, Reduce], object]] = {
    "maximum (STEER, exponential and linear)": lambda x, m, r: steer_statistic(x, m, reduce=r),
    "quantile (STEER, binary)": lambda x, m, r: steer_statistic(x, m, mapping="binary", reduce=r),
    "top share of one set (fork tokens, ...)": lambda x, m, r: order_statistics.top_threshold(x, m.bool(), 0.1, r),
    "top share of T+ and of T- (STARE)": lambda x, m, r: stare_statistic(-x.abs(), x, m, reduce=r),
}


def main() -> None:
    """Count the rounds and bytes of each statistic, and print a table."""
    torch.set_num_threads(1)
    columns, rows = ["statistic", "tokens per rank", "rounds", "bytes", "bytes of a gather", "seconds"], []
    for name, statistic in STATISTICS.items():
        for power in range(3, 8):
            values, mask = torch.randn(1, 10**power), torch.ones(1, 10**power)
            sent: list[int] = []

            def count(tensor: Tensor, operation: str, sent: list[int] = sent) -> Tensor:
                sent.append(tensor.numel() * tensor.element_size())
                return tensor

            began = time.perf_counter()
            statistic(values, mask, count)
            seconds = time.perf_counter() - began
            rows.append([name, f"10^{power}", len(sent), sum(sent), 4 * 10**power, f"{seconds:.3f}"])
    print(DataFrame(rows, columns=columns).to_string(index=False))


if __name__ == "__main__":
    main()
