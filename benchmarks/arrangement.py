"""Time to arrange the completions of a step, and bytes that a rank holds while rows travel to their rank.

    python benchmarks/arrangement.py

Each rank has 2,048 completions in micro-batches of 1, or 1,024 in micro-batches of 8, with lognormal lengths and
groups of 8. The seconds are those of one thread in user mode, on each rank and once in an optimizer step. The bytes
are counted for completions of 32k tokens: ids, mask, old log-probabilities, importance ratios and the reference
model's log-probabilities. A rank holds its own rows twice; if each rank gathered the step, it would hold all rows.
"""

import random

from padding import GROUP, HIDDEN, draw_lengths, now

from steer_trl.trainer.forward.arrangement import Row, arrange
from steer_trl.trainer.forward.cost import Cost

TOKENS = 2**15
BYTES = 28
"""The bytes of a completion's token in all columns: 8 for the id, 8 for the mask, and 4 for each of three floats."""
SIZES = [(2048, 1, 1), (2048, 1, 8), (1024, 8, 8)]
"""Completions of a rank, the micro-batch, and the number of ranks."""


def measure(completions: int, batch: int, ranks: int) -> float:
    """Return the seconds in which a rank arranges the step of all ranks."""
    of_prompts, of_completions = draw_lengths(completions * ranks, 4, "chat", 0)
    step = [Row(i // GROUP, *lengths) for i, lengths in enumerate(zip(of_prompts, of_completions, strict=True))]
    random.Random(0).shuffle(step)
    before = now()
    arrange(step, ranks, completions // batch, Cost(HIDDEN), is_packed=True)
    return now() - before


def main() -> None:
    """Print a table."""
    print("| completions of a rank | micro-batch | ranks | arranged, s | GB held by a rank | if all were gathered |")
    print("|--:|--:|--:|--:|--:|--:|")
    for completions, batch, ranks in SIZES:
        seconds = measure(completions, batch, ranks)
        own = completions * TOKENS * BYTES / 1e9 if ranks > 1 else 0.0
        cells = [str(completions), str(batch), str(ranks), f"{seconds:.2f}", f"{own:.2f}", f"{own * ranks:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
