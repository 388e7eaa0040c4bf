"""Measures the time of STEER's and STARE's own arithmetic in an optimizer step, on one core, in milliseconds.

    python benchmarks/shaping.py

If a method needs no further forward pass, this arithmetic and a few means for the log are all that it adds to a
training step. `reductions.py` counts what ranks send to each other.
"""

from functools import partial
from timeit import repeat

import torch
from overhead import STARE, STEER

from steer_trl import SteerGRPOConfig
from steer_trl.shaping import TokenBatch, make_shapers, measure_all, shape_batch
from steer_trl.shaping.order_statistics import this_process


def tokens(count: int) -> TokenBatch:
    """Make a batch of `count` random tokens, in completions of 128 tokens."""
    size = (count // 128, 128)
    generator = torch.Generator().manual_seed(0)
    logps = -5 * torch.rand(size, generator=generator)
    entropies = torch.rand(size, generator=generator)
    advantages = torch.randn(size[0], 1, generator=generator)
    return TokenBatch(logps, logps, entropies, entropies, advantages, torch.ones(size), 0.2, 0.2)


def main() -> None:
    """Print a table with a row for each method and number of tokens."""
    torch.set_num_threads(1)
    print("| method | tokens | ms: what they are compared with | ms: weights |\n|---|---|---|---|")
    for settings in (STEER, STARE):
        name = settings["advantage_shaping"]
        shapers = make_shapers(SteerGRPOConfig(output_dir="unused", use_cpu=True, bf16=False, **settings))
        shapers[name].on_rollout(1.0)
        for count in (2**10, 2**14, 2**18):
            batch = tokens(count)
            measures = measure_all(shapers, batch, this_process)
            calls = partial(measure_all, shapers, batch, this_process), partial(shape_batch, shapers, batch, measures)
            compared, weighted = (1000 * min(repeat(call, number=1, repeat=20)) for call in calls)
            print(f"| {name} | {count:,} | {compared:.2f} | {weighted:.2f} |")


if __name__ == "__main__":
    main()
