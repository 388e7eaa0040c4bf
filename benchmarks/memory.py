"""Peak memory of a method's own arithmetic in an optimizer step, in bytes per token, up to ten million tokens.

    python benchmarks/memory.py

Completions have 16,384 tokens. torch's profiler on CPU counts the highest memory during a call, above the memory held
before it. The inputs of the call (log-probabilities, entropies, the mask) belong to the trainer and are not counted.

compared with   merging the micro-batches of a rank's step, and computing the statistics that tokens are compared with
weights         the weights and advantages of one micro-batch, here with as many tokens as the step
diagnostics     the statistics of this micro-batch that are logged in every step
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from overhead import allocations

from steer_trl import SteerGRPOConfig
from steer_trl.monitoring.tokens import change_statistics, sanity_statistics, token_statistics
from steer_trl.monitoring.weights import shaping_statistics, weight_statistics
from steer_trl.shaping import Shaped, Shaper, TokenBatch, make_shapers, measure_all, shape_batch
from steer_trl.shaping.order_statistics import this_process

LENGTH = 16_384
COUNTS = (2**17, 2**20, 10 * 2**20)
METHODS: dict[str, dict[str, Any]] = {
    "STEER": {"advantage_shaping": "steer"},
    "STEER, exact form": {"advantage_shaping": "steer", "steer_form": "exact"},
    "STARE C2": {"advantage_shaping": "stare", "stare_variant": "C2", "stare_gate": "none"},
    "REPO-R": {"advantage_shaping": "repo_r"},
    "entropy_change": {"advantage_shaping": "entropy_change"},
    "Clip-Cov": {"advantage_shaping": "clip_cov"},
}


def tokens(count: int) -> TokenBatch:
    """Make a batch of `count` random tokens, in completions of `LENGTH` tokens."""
    size = (count // LENGTH, LENGTH)
    dice = torch.Generator().manual_seed(0)
    logps, entropies, draws = -5 * torch.rand(size, generator=dice), *torch.rand(2, *size, generator=dice)
    advantages = torch.randn(size[0], 1, generator=dice)
    sensitivities = torch.rand(size, generator=dice) - 0.5
    scores = logps, logps, entropies, entropies, advantages, torch.ones(size)
    return TokenBatch(*scores, 0.2, 0.2, draws=draws, sensitivities=sensitivities)


def row(batch: TokenBatch, index: int) -> TokenBatch:
    """Return one completion of a batch as a batch."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return replace(batch, **{name: x[index : index + 1] for name, x in values.items() if isinstance(x, torch.Tensor)})


def compare(shapers: Mapping[str, Shaper], micro_batches: list[TokenBatch]) -> Any:
    """Merge the micro-batches, and compute the statistics that their tokens are compared with."""
    return measure_all(shapers, TokenBatch.merge(micro_batches), this_process)


def diagnose(batch: TokenBatch, result: Shaped) -> None:
    """Compute the statistics that are logged in every step."""
    advantages = batch.advantages if result.advantages is None else result.advantages
    token_statistics(batch)
    change_statistics(batch, advantages)
    sanity_statistics(batch, 2**17)
    shaping_statistics(batch, result)
    weight_statistics(result.weights, batch.mask)


def peak_bytes(call: Callable[[], Any]) -> int:
    """Return the most memory that torch's allocator held during the call, above what it held before, in bytes."""
    with torch.no_grad():
        held = allocations(call)
    return max(at["Total Allocated"] for at in held) - (held[0]["Total Allocated"] - held[0]["Bytes"])


def main() -> None:
    """Print a table with a row for each method and number of tokens."""
    torch.set_num_threads(1)
    print("| method | tokens | compared with | weights | diagnostics |\n|---|---|---|---|---|")
    for name, settings in METHODS.items():
        shapers = make_shapers(SteerGRPOConfig(output_dir="unused", use_cpu=True, bf16=False, **settings))
        for count in COUNTS:
            batch = tokens(count)
            measures = measure_all(shapers, batch, this_process)
            result = shape_batch(shapers, batch, measures)
            calls = [
                partial(compare, shapers, [row(batch, i) for i in range(count // LENGTH)]),
                partial(shape_batch, shapers, batch, measures),
                partial(diagnose, batch, result),
            ]
            cells = [f"{peak_bytes(call) / batch.mask.numel():.1f}" for call in calls]
            print(f"| {name} | {count:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
