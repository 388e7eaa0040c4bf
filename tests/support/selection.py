"""Random sets of tokens on several ranks, and what a sort over all of them says. For threads and for processes."""

import math

import numpy as np
import torch

from steer_trl.shaping import order_statistics

SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-38, np.inf, -np.inf, 1.0, 1.0 + 2**-23, 3e38], dtype=np.float32)


def tokens(dice):
    """Values and validity of one rank: smooth, tied, special, or none at all."""
    count = dice.choice([1, 2, 3, 10, 100])
    smooth = dice.standard_normal(count).astype(np.float32) * np.float32(10.0 ** dice.integers(-40, 30))
    values = [smooth, dice.integers(-2, 3, count).astype(np.float32), dice.choice(SPECIAL, count)][dice.integers(3)]
    return values, dice.random(count) < dice.choice([0.0, 0.5, 1.0])


def check(case, rank, ranks, reduce):
    """Compare every statistic of a case, as one of the ranks computes it, with the sort; return the bytes reduced."""
    dice = np.random.default_rng(case)
    sets = [tokens(dice) for _ in range(ranks)]
    fraction = dice.choice([0.0, 0.1, 0.5, 1.0, dice.random()])
    everything = np.sort(np.concatenate([values[valid] for values, valid in sets]))[::-1]
    count = len(everything)
    values, valid = (torch.from_numpy(x) for x in sets[rank])
    sizes = []

    def counted(tensor, operation):
        sizes.append(tensor.numel() * tensor.element_size())
        return reduce(tensor, operation)

    k = min(count, max(1, math.floor(fraction * count + 0.999999))) if fraction else 0
    top = order_statistics.top_threshold(values, valid, fraction, counted).item()
    assert top == (everything[k - 1] if k else math.inf), (case, "top", fraction, top, everything)
    quantile = order_statistics.quantile(values, valid, fraction, counted).item()
    expected = everything[count - math.floor(fraction * (count - 1)) - 1] if count else math.inf
    assert quantile == expected, (case, "quantile", fraction, quantile, everything)
    extremes = [x.item() for x in order_statistics.extremes(values, valid, counted)]
    assert extremes == ([everything[-1], everything[0]] if count else [math.inf, -math.inf]), (case, "extremes")
    return tuple(sizes)


# The number of tokens, then 256 counts in each of four rounds; twice, and the two extremes.
BYTES = (8, 2048, 2048, 2048, 2048) * 2 + (8,)
