"""Identities of the other methods that act in the loss."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from support.methods.batches import EXACT, SEEDS, chosen, clipped_loss, gradient, kept, random_batch, trained, weights
from support.methods.oracles import mean
from support.runs import of_method


@given(SEEDS, st.sampled_from([0.05, 0.2, 0.5]))
def test_fork_tokens_average_over_uncertain_tokens(seed, fraction):
    batch = random_batch(seed)
    assume(batch.mask.any())
    ours = weights(kept("fork_tokens", **of_method("fork_tokens", fraction=fraction), **EXACT), batch)
    places = sorted(trained(batch), key=batch.entropies.__getitem__, reverse=True)
    uncertain = places[: max(1, math.floor(fraction * len(places) + 0.9999))]
    assert chosen(ours != 0, batch) == set(uncertain)
    over_all = mean((ours * batch.logps)[place].item() for place in places)
    assert over_all == pytest.approx(mean(batch.logps[place].item() for place in uncertain), rel=1e-5)


@given(SEEDS)
def test_grpo_s_has_the_gradient_of_the_papers_loss(seed):
    batch = random_batch(seed)
    a, old, lengths = batch.advantages.double(), batch.old_logps.double(), batch.mask.sum(1).clamp(min=1)

    def mean_ratio(lp, of_token=1.0):
        return ((lp - old).exp() * of_token * batch.mask).sum(1) / lengths

    explicit = gradient(lambda lp: clipped_loss(mean_ratio(lp), a.squeeze(1), 0.8, 1.28).mean(), batch.logps)
    effective = a * weights(kept("grpo_s"), batch)
    ours = gradient(lambda lp: -mean_ratio(lp, effective).mean(), batch.logps)
    torch.testing.assert_close(ours, explicit, atol=1e-6, rtol=1e-5)
