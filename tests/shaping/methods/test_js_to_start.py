"""The advantages give the gradient of the paper's divergence, summed over a whole vocabulary in plain loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods.batches import SEEDS, kept

from steer_trl.shaping import TokenBatch

VOCABULARY = 7


def distributions(seed):
    """Logits that ask for a gradient, and the log-probabilities of a reference, float64."""
    g = torch.Generator().manual_seed(seed)
    logits, ref = 2 * torch.randn(2, VOCABULARY, generator=g, dtype=torch.float64)
    return logits.requires_grad_(), ref.log_softmax(0)


def gradient_of(loss, logits):
    return torch.autograd.grad(loss, logits, retain_graph=True)[0]


def expected(of_each, logps):
    """The gradient of a loss per sampled token, on average over the tokens that the policy samples."""
    probabilities = logps.detach().exp()
    return sum(p * x for p, x in zip(probabilities, of_each, strict=True))


def f_divergence(f, logps, ref):
    return sum(math.exp(r) * f((lp - r).exp()) for lp, r in zip(logps, ref.tolist(), strict=True))


def js_generator(u):
    return u * u.log() - (u + 1) * ((u + 1) / 2).log()


@given(SEEDS, st.sampled_from([0.05, 1.0]))
def test_the_bonus_is_the_gradient_of_the_papers_js(seed, beta):
    logits, ref = distributions(seed)
    logps = logits.log_softmax(0)
    ones = torch.ones(1, VOCABULARY)
    rows = [x.detach().float().unsqueeze(0) for x in (logps, logps)]
    batch = TokenBatch(*rows, ones, ones, ones[:, :1], ones, 0.2, 0.2, ref_logps=ref.float().unsqueeze(0))
    bonus = kept("js_to_start", beta=beta).bonus(batch, None)[0]
    ours = expected([-b * gradient_of(lp, logits) for b, lp in zip(bonus, logps, strict=True)], logps)
    theirs = beta * gradient_of(f_divergence(js_generator, logps, ref), logits)
    torch.testing.assert_close(ours, theirs, atol=1e-6 * beta, rtol=1e-4)


@given(SEEDS)
def test_the_papers_generator_is_twice_the_divergence(seed):
    logits, ref = distributions(seed)
    p, q = logits.detach().softmax(0).tolist(), ref.exp().tolist()
    middle = [(x + y) / 2 for x, y in zip(p, q, strict=True)]
    js = [sum(x * math.log(x / m) for x, m in zip(side, middle, strict=True)) / 2 for side in (p, q)]
    assert f_divergence(js_generator, logits.log_softmax(0), ref).item() == pytest.approx(2 * sum(js))


@pytest.mark.parametrize("corrected", [False, True])
@given(seed=SEEDS)
def test_trls_own_penalty_is_the_forward_kl_without_its_correction(corrected, seed):
    """So the paper's other divergence needs no method; the correction makes it the reverse KL."""
    logits, ref = distributions(seed)
    logps = logits.log_softmax(0)
    penalty = (ref - logps).exp() - (ref - logps) - 1
    penalty = penalty * (logps - logps.detach()).exp() if corrected else penalty
    ours = expected([gradient_of(x, logits) for x in penalty], logps)
    reverse = (logps.exp() * (logps - ref)).sum()
    forward = f_divergence(lambda u: -u.log(), logps, ref)
    torch.testing.assert_close(ours, gradient_of(reverse if corrected else forward, logits))


def test_the_bonus_stays_finite_for_tokens_far_away():
    logps = torch.tensor([[-1e4, -1e-3, -torch.inf, -1.0]])
    ref = torch.tensor([[-1e-3, -1e4, -1.0, -1.0]])
    ones = torch.ones_like(logps)
    batch = TokenBatch(logps, logps, ones, ones, ones[:, :1], ones, 0.2, 0.2, ref_logps=ref)
    bonus = kept("js_to_start", beta=1.0).bonus(batch, None)[0].tolist()
    assert bonus == pytest.approx([1e4 - math.log(2), -math.log(2), 0.0, 0.0], rel=1e-4)
