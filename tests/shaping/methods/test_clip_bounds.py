"""Clip bounds that move, against the clipped loss that they stand for."""

from itertools import product

import pytest
import torch
from support.methods.batches import clipped_loss, config, gradient, method, weights

from steer_trl.shaping import TokenBatch, make_loops, make_shapers


@pytest.mark.parametrize(
    ("strength", "low", "high"), [(0.0, 0.8, 1.28), (1.0, 0.9, 1.56), (3.0, 0.95, 2.12), (-1.0, 0.6, 1.14)]
)
def test_the_gradient_is_that_of_the_clipped_loss_with_the_moved_bounds(strength, low, high):
    ratios = [0.3, 0.55, 0.65, 0.85, 0.92, 0.97, 1.0, 1.1, 1.2, 1.4, 1.8, 3.0]
    ratio, a = torch.tensor(list(product(ratios, [1.5, -0.7, 0.0]))).T.reshape(2, 6, 6)
    old = torch.full_like(ratio, -4.0)
    batch = TokenBatch(old + ratio.log(), old, -old, -old, a, torch.ones_like(ratio), 1.0, 1e9)
    shaper = method("clip_bounds", clip_bounds_strength=strength)
    bounds = (torch.tensor(bound).double() for bound in (low, high))
    explicit = gradient(lambda lp: clipped_loss((lp - old).exp(), a.double(), *bounds).sum(), batch.logps)
    effective = a * weights(shaper, batch)
    ours = gradient(lambda lp: -((lp - old).exp() * effective).sum(), batch.logps)
    torch.testing.assert_close(ours, explicit, atol=1e-6, rtol=1e-5)
    for side in (a > 0, a < 0):
        assert (explicit[side] == 0).any() and (explicit[side] != 0).any()


def test_an_entropy_below_the_level_tightens_the_lower_bound_and_widens_the_upper_one():
    settings = {"hold_entropy": 0.4, "hold_entropy_unit": "nats", "num_iterations": 2}
    args = config("clip_bounds", **settings)
    shapers = make_shapers(args)
    (hold,) = make_loops(args, shapers)
    bounds = shapers["clip_bounds"].bounds
    assert bounds() == pytest.approx((0.8, 1.28))
    for _ in range(60):
        hold.on_rollout(0.39, 0.0)
    (low, high), strength = bounds(), hold.metrics()["hold_entropy/strength"]
    assert 0.8 < low < 1 and high > 1.28 and strength > 0
    for _ in range(60):
        hold.on_rollout(0.1, 0.0)
    assert bounds() == pytest.approx((0.95, 2.12))  # at its bound, 3
    for _ in range(60):
        hold.on_rollout(4.0, 0.0)
    assert bounds() == pytest.approx((0.8, 1.28))


def test_without_a_second_optimizer_step_they_have_no_authority_and_the_log_names_them(caplog):
    config("clip_bounds", hold_entropy=0.5)
    assert "clip_bounds: with one optimizer step per rollout no token has moved since its rollout" in caplog.text
    caplog.clear()
    config("clip_bounds", hold_entropy=0.5, num_iterations=2)
    assert "with one optimizer step per rollout" not in caplog.text
