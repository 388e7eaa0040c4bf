"""Methods that read the exact entropy change of a token, and a scale that no single token rules."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods import oracles
from support.methods.batches import SEEDS, clipped_loss, kept, random_batch, trained, weights
from support.runs import of_method

from steer_trl.functional import entropy_sensitivity
from steer_trl.shaping import TokenBatch

STRENGTHS = st.sampled_from([-1.0, -0.3, 0.5, 1.0])


@given(SEEDS, STRENGTHS)
def test_the_entropy_moves_in_the_direction_of_the_strength(seed, strength):
    """What it adds to the change of the batch's entropy has the sign of the strength; weights stay in [0, 2]."""
    batch = random_batch(seed)
    ours = weights(kept("entropy_change", **of_method("entropy_change", strength=strength)), batch)
    changes = oracles.exact_change(batch)
    gained = [(ours[place].item() - 1) * change for place, change in changes.items()]
    assert all(x * strength >= 0 for x in gained) and any(gained) == any(changes.values())
    assert (ours >= 0).all() and (ours <= 2).all()


@pytest.mark.parametrize(("name", "options"), [("entropy_change", {}), ("steer", {"steer_form": "exact"})])
def test_unknown_and_zero_changes_have_weight_one(name, options):
    batch = random_batch(5)
    assert (weights(kept(name, **options), replace(batch, advantages=0 * batch.advantages)) == 1).all()
    place = trained(batch)[0]
    batch.sensitivities[place] = torch.nan
    ours = weights(kept(name, **options), batch)
    assert ours[place] == 1 and ours.isfinite().all()


@given(SEEDS, STRENGTHS)
def test_a_clipped_step_changes_entropy_as_predicted(seed, strength):
    """With logits of its own for each token, what the weights add is what the entropy gains; off-policy too."""
    g = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(3, 4, 6, generator=g, dtype=torch.float64)
    token_ids = torch.randint(6, (3, 4), generator=g)
    old = logits + 0.3 * torch.randn(3, 4, 6, generator=g, dtype=torch.float64)
    logps, old_logps = (chosen(x.log_softmax(-1), token_ids) for x in (logits, old))
    entropies, ones = entropy(logits).float(), torch.ones(3, 4)
    numbers = logps.float(), old_logps.float(), entropies, entropies, torch.randn(3, 1, generator=g), ones
    batch = TokenBatch(*numbers, 0.2, 0.28, sensitivities=entropy_sensitivity(logits, token_ids))
    gains = []
    for weight in (
        ones,
        weights(kept("entropy_change", **of_method("entropy_change", strength=strength)), batch),
    ):
        parameters = logits.clone().requires_grad_()
        ratio = (chosen(parameters.log_softmax(-1), token_ids) - old_logps).exp()
        loss = clipped_loss(ratio, (batch.advantages * weight).double(), 0.8, 1.28)
        (gradient,) = torch.autograd.grad(loss.sum(), parameters)
        gains.append((entropy(logits - 1e-6 * gradient) - entropy(logits)) / 1e-6)
    plain, weighted = gains
    for place, change in oracles.exact_change(batch).items():
        assert plain[place].item() == pytest.approx(change, rel=1e-3, abs=1e-4)
    assert strength * (weighted - plain).sum() >= 0


def chosen(values, token_ids):
    return values.gather(-1, token_ids.unsqueeze(-1)).squeeze(-1)


def entropy(logits):
    return torch.special.entr(logits.softmax(-1)).sum(-1)
