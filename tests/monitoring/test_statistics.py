"""Numbers as sums: the same as over all tokens at once, however these are split."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.monitoring.statistics import mean, ratio
from steer_trl.monitoring.weights import weight_statistics


def finished(*parts):
    """What a statistic of several parts comes to."""
    totals = [sum(float(x) for x in sums) for sums in zip(*(part.sums for part in parts), strict=True)]
    return parts[0].finish(*totals)


def tokens(seed, rows=6, width=5):
    g = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, rows, width, generator=g)
    return x, 0.5 * x + y, torch.rand(rows, width, generator=g) < 0.8


@given(st.integers(0, 1000), st.integers(1, 5))
def test_any_split_equals_numpy_over_all_tokens(seed, cut):
    x, y, where = tokens(seed)
    where[0, 0] = where[-1, :2] = True
    halves = [(part[:cut], part[cut:]) for part in (x, y, where)]
    a, b, w = (part.numpy().astype(float) for part in (x, y, where))
    chosen_x, chosen_y = a[w > 0], b[w > 0]
    means = [mean(part, kept) for part, kept in zip(halves[0], halves[2], strict=True)]
    assert finished(*means) == pytest.approx(chosen_x.mean(), abs=1e-5)
    ratios = [ratio(p.abs(), q.abs(), kept) for p, q, kept in zip(*halves, strict=True)]
    assert finished(*ratios) == pytest.approx(np.abs(chosen_x).sum() / np.abs(chosen_y).sum(), rel=1e-5)


def test_numbers_off_the_mask_do_not_count():
    x, where = torch.tensor([[1.0, math.nan]]), torch.tensor([[True, False]])
    assert finished(mean(x, where)) == 1
    x, nowhere = torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    for statistic in (mean(x, nowhere), ratio(x, x, nowhere)):
        assert math.isnan(finished(statistic))
    assert all(math.isnan(finished(statistic)) for statistic in weight_statistics(x, nowhere).values())


@given(st.lists(st.floats(0, 4, width=32), min_size=2, max_size=30))
def test_weight_shares_add_up_to_one(values):
    weights = torch.tensor(values)[None]
    found = weight_statistics(weights, torch.ones_like(weights))
    effective = found.pop("weights/effective_share")
    assert sum(finished(share) for share in found.values()) == pytest.approx(1)
    w = np.array(values, dtype=float)
    if w.sum() > 0.1:
        assert finished(effective) == pytest.approx(w.sum() ** 2 / (len(w) * (w**2).sum()), rel=1e-3)


@pytest.mark.parametrize(
    ("weight", "key"),
    [
        *((0.0, "weights/under_0.5"), (0.5, "weights/0.5_to_0.9"), (0.9, "weights/0.9_to_1")),
        *((0.99999, "weights/0.9_to_1"), (1.0, "weights/1"), (1.00001, "weights/1_to_1.1")),
        *((1.1, "weights/1_to_1.1"), (1.11, "weights/1.1_to_2"), (2.0, "weights/1.1_to_2"), (2.1, "weights/over_2")),
    ],
)
def test_a_weight_counts_in_the_bin_that_holds_it(weight, key):
    weights = torch.full((1, 2), weight)
    found = weight_statistics(weights, torch.ones(1, 2))
    assert finished(found[key]) == 1
    assert finished(found["weights/effective_share"]) == pytest.approx(1.0 if weight else math.nan, nan_ok=True)
