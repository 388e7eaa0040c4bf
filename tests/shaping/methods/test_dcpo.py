"""DCPO's bounds and loss, against loops and an explicit loss."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods.batches import clipped_loss, gradient, method, trained, weights
from support.runs import of_method

from steer_trl.shaping import TokenBatch


def test_dcpo_clips_at_the_papers_bounds():
    """For likely and unlikely tokens, on all sides of every bound."""
    ratios = [0.2, 0.55, 0.72, 0.9, 1.0, 1.2, 1.6, 2.9, 5.0, 12.0]
    q, ratio, a = torch.tensor(list(product([0.02, 0.3, 0.9], ratios, [1.5, -0.7, 0.0]))).T.reshape(3, 9, 10)
    batch = TokenBatch(q.log() + ratio.log(), q.log(), q, q, a, torch.ones_like(q), 1.0, 1e9)
    low, high = (torch.zeros(q.shape, dtype=torch.float64) for _ in range(2))
    for place in trained(batch):
        low[place] = 0.5 + 0.5 * math.sqrt(max(1 - 4 * 0.2 / q[place], 0))
        high[place] = min(0.5 + 0.5 * math.sqrt(1 + 4 * 0.28 / q[place]), 10)
    shaper, old = method("dcpo"), batch.old_logps.double()
    explicit = gradient(lambda lp: clipped_loss((lp - old).exp(), a.double(), low, high, 10.0).sum(), batch.logps)
    effective = a * weights(shaper, batch)
    ours = gradient(lambda lp: -((lp - old).exp() * effective).sum(), batch.logps)
    torch.testing.assert_close(ours, explicit, atol=1e-6, rtol=1e-5)
    for side in ((a > 0), (a < 0) & (ratio < 1), (a < 0) & (ratio > 10)):
        assert (explicit[side] == 0).any()
    marked = shaper.marks(batch, None)
    assert torch.equal(marked["dcpo/clipped_low"] | marked["dcpo/clipped_high"], (explicit == 0) & (a != 0))


@given(st.floats(1e-6, 1.0), st.floats(0.01, 0.9), st.floats(0.01, 3.0))
def test_dcpo_bounds_solve_their_equations(q, e_low, e_high):
    shaper = method("dcpo", **of_method("dcpo", epsilon_low=e_low, epsilon_high=e_high))
    low, high = (x.item() for x in shaper.bounds(torch.tensor(q, dtype=torch.float64)))
    assert 0.5 <= low <= 1 <= high <= 10
    assert (1 - low) * low == pytest.approx(min(e_low / q, 0.25))
    assert (high - 1) * high == pytest.approx(min(e_high / q, 9 * 10))


@pytest.mark.parametrize(("epsilon", "low", "high"), [(0.2, 0.5, 10.0), (0.0, 1.0, 1.0)])
def test_dcpo_bounds_where_the_probability_underflows(epsilon, low, high):
    shaper = method("dcpo", **of_method("dcpo", epsilon_low=epsilon, epsilon_high=epsilon))
    assert [x.item() for x in shaper.bounds(torch.tensor([-200.0]).exp())] == [low, high]
