"""Clip-Cov and KL-Cov, against sorted covariances and an explicit loss."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.methods.batches import EXACT, SEEDS, bonus, chosen, covariances, gradient, kept, random_batch, weights
from support.runs import of_method

from steer_trl.shaping import TokenBatch
from steer_trl.support.randomness import draw_uniform


@given(SEEDS, st.sampled_from([0.01, 0.3, 1.0]))
def test_clip_cov_drops_a_share_of_the_tokens_in_its_band(seed, fraction):
    batch = random_batch(seed)
    assume(batch.mask.any())
    cov, a = covariances(batch), batch.advantages
    assume(all(abs(abs(value) - 0.5) > 1e-4 for value, _ in cov))
    ratio = (batch.logps.double() - batch.old_logps.double()).exp()
    clipped = ((a > 0) & (ratio > 1.28)) | ((a < 0) & (ratio < 0.8))
    pool = {place for value, place in cov if -0.5 < value < 0.5 and not clipped[place]}
    shaper = kept("clip_cov", **of_method("clip_cov", fraction=fraction, lower=-0.5, upper=0.5))
    ours = weights(shaper, batch)
    dropped = chosen(ours == 0, batch)
    assert dropped <= pool and len(dropped) == min(max(math.floor(fraction * len(cov) + 1e-9), 1), len(pool))
    assert set(ours.unique().tolist()) <= {0.0, 1.0} and torch.equal(weights(shaper, batch), ours)


def test_clip_cov_draws_tokens_equally_often():
    g = torch.Generator().manual_seed(0)
    batch = TokenBatch(*-torch.rand(4, 4, 5, generator=g), torch.randn(4, 1, generator=g), torch.ones(4, 5), 1, 1e9)
    shaper = kept("clip_cov", **of_method("clip_cov", fraction=0.1, lower=-100.0, upper=100.0))
    draws = [draw_uniform(0, step, torch.arange(4), 5) for step in range(600)]
    times = sum(weights(shaper, replace(batch, draws=x)) == 0 for x in draws)
    assert times.sum() == 600 * 2 and (times - 60).abs().max() < 4.5 * math.sqrt(60)


@settings(max_examples=50)
@given(SEEDS, st.sampled_from([0.002, 0.1, 0.5, 1.0]), st.sampled_from([0.3, 1.0]))
def test_kl_cov_pulls_back_the_tokens_of_largest_covariance(seed, fraction, coef):
    batch = random_batch(seed)
    assume(batch.mask.any())
    cov = covariances(batch)
    count = max(1, math.floor(len(cov) * fraction + 1e-9))
    assume(count == len(cov) or cov[count - 1][0] - cov[count][0] > 1e-4)
    assume(all(value != 0 for value, _ in cov))  # below: equal advantages
    held = torch.zeros_like(batch.logps)
    for _, place in cov[:count]:
        held[place] = 1
    a, old = batch.advantages.double(), batch.old_logps.double()

    def explicit(lp):
        return ((-a * (lp - old).exp() + coef * held * (lp - old).abs()) * batch.mask).sum()

    effective = a + bonus(kept("kl_cov", **of_method("kl_cov", fraction=fraction, coef=coef), **EXACT), batch)
    ours = gradient(lambda lp: -((lp - old).exp() * effective * batch.mask).sum(), batch.logps)
    torch.testing.assert_close(ours, gradient(explicit, batch.logps), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("advantage", [0.0, 1.0])
def test_kl_cov_keeps_its_share_where_advantages_are_equal(advantage):
    """Groups that teach nothing, or a micro-batch of one completion: every covariance is 0."""
    numbers = -torch.rand(4, 4, 10, generator=torch.Generator().manual_seed(0))
    batch = TokenBatch(*numbers, torch.full((4, 1), advantage), torch.ones(4, 10), 1.0, 1e9)
    assert (bonus(kept("kl_cov", **of_method("kl_cov", fraction=0.1)), batch) != 0).sum() <= 4


@pytest.mark.parametrize("logp", [-90.0, -104.0, -300.0])
def test_kl_cov_skips_ratios_without_an_inverse(logp):
    logps, old, ones = torch.tensor([[logp, -0.5, -0.7]]), torch.tensor([[-1.0, -0.5, -0.7]]), torch.ones(1, 3)
    a = torch.tensor([[-1.0, 1.0, 0.3]])
    assert (
        bonus(
            kept("kl_cov", **of_method("kl_cov", fraction=0.4)),
            TokenBatch(logps, old, ones, ones, a, ones, 1, 1),
        )
        .eq(0)
        .all()
    )
