"""Identities and properties of the pure functions, over random inputs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from steer_trl.functional import entropy_change, entropy_sensitivity, stare_weights, steer_weights
from steer_trl.functional import entropy_sensitivity_without_logits as without_logits
from steer_trl.functional import released_entropy_change as released_change

MAPPINGS = ("exponential", "linear", "binary")


@st.composite
def batches(draw):
    """Random log-probs, old log-probs, entropies, advantages [B] and a mask with at least one token."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    shape = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    logps = -torch.rand(shape, generator=generator) * draw(st.sampled_from([1e-3, 1.0, 15.0]))
    old_logps = (logps + 0.3 * torch.randn(shape, generator=generator)).clamp(max=0)
    entropies = torch.rand(shape, generator=generator) * 3
    advantages = torch.randn(shape[0], generator=generator).round(decimals=draw(st.sampled_from([0, 3])))
    mask = (torch.rand(shape, generator=generator) < 0.7).long()
    mask[0, 0] = 1
    return (logps, old_logps, entropies, advantages), mask


class TestEntropyChange:
    @pytest.mark.parametrize(
        ("ratio", "advantage", "clipped"),
        [(1.25, 1.0, True), (1.25, -1.0, False), (0.75, -1.0, True), (0.75, 1.0, False), (1.1, 1.0, False)],
    )
    def test_clipped_tokens_have_no_effect(self, ratio, advantage, clipped):
        logps = torch.tensor([[math.log(0.3)]])
        arguments = logps, logps - math.log(ratio), torch.ones(1, 1), torch.tensor([advantage])
        assert (entropy_change(*arguments).item() == 0) is clipped
        assert released_change(*arguments).item() != 0
        assert entropy_change(*arguments, epsilon_low=math.inf, epsilon_high=math.inf).item() != 0

    @given(batches(), st.floats(0.0, 0.5))
    def test_the_forms_agree_but_for_phi(self, batch, epsilon):
        """Where Phi is the paper's estimate of it, the exact form is the paper's: indicator, ratio, sign."""
        (logps, old, entropies, advantages), _ = batch
        arguments = {"epsilon_low": epsilon, "epsilon_high": epsilon}
        estimate = (1 - logps.exp()).square() * (logps + entropies)
        ours = entropy_change(logps, old, entropies, advantages, sensitivities=estimate, **arguments)
        theirs = entropy_change(logps, old, entropies, advantages, **arguments)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


class TestSteerWeights:
    @given(batches(), st.floats(0.05, 1.0))
    def test_largest_change_gets_exactly_lambda_min(self, batch, lambda_min):
        arguments, mask = batch
        omega = entropy_change(*arguments)
        weights = steer_weights(omega, mask, lambda_min=lambda_min)
        magnitudes = torch.where(mask.bool(), omega.abs(), -1.0)
        if magnitudes.max() > 0:
            largest = magnitudes == magnitudes.max()
            assert (weights[largest] == torch.tensor(lambda_min, dtype=torch.float32)).all()
        assert (weights >= torch.tensor(lambda_min, dtype=torch.float32)).all() and (weights <= 1).all()

    @given(batches(), st.sampled_from(MAPPINGS))
    def test_powers_of_two_change_nothing_exactly(self, batch, mapping):
        (*arguments, advantages), mask = batch
        one, four = (entropy_change(*arguments, factor * advantages) for factor in (1, 4))
        assert torch.equal(steer_weights(one, mask, mapping=mapping), steer_weights(four, mask, mapping=mapping))

    @given(batches(), st.sampled_from(MAPPINGS), st.randoms(use_true_random=False))
    def test_order_and_padding_do_not_matter(self, batch, mapping, random):
        arguments, mask = batch
        omega = entropy_change(*arguments)
        weights = steer_weights(omega, mask, mapping=mapping)
        rows = list(range(len(mask)))
        random.shuffle(rows)
        # A vectorised power rounds its last bit by the place in memory.
        last_bit = {"atol": 1.2e-7, "rtol": 0}
        torch.testing.assert_close(steer_weights(omega[rows], mask[rows], mapping=mapping), weights[rows], **last_bit)
        padded = [torch.nn.functional.pad(x, (0, 3), value=value) for x, value in ((omega, 1e9), (mask, 0))]
        torch.testing.assert_close(steer_weights(*padded, mapping=mapping)[:, :-3], weights, **last_bit)

    def test_linear_of_equal_changes_is_its_midpoint(self):
        assert (steer_weights(torch.full((2, 2), 3.0), torch.ones(2, 2), mapping="linear") == 1).all()

    def test_binary_by_hand(self):
        # Five values: the 0.6-quantile is the one at position 2.4, between 3 and 4; only what is above gets 0.7.
        omega = torch.tensor([[1.0, 2.0, -3.0, 4.0, 5.0]])
        weights = steer_weights(omega, torch.ones(1, 5), mapping="binary", quantile=0.6, lambda_min=0.7)
        torch.testing.assert_close(weights, torch.tensor([[1.0, 1.0, 1.0, 0.7, 0.7]]))

    def test_floor_keeps_small_changes_from_being_damped(self):
        omega = torch.tensor([[0.01, 0.005]])
        weights = steer_weights(omega, torch.ones(1, 2), floor=0.02)
        torch.testing.assert_close(weights, torch.tensor([[0.8**0.5, 0.8**0.25]]))

    @pytest.mark.parametrize("mapping", MAPPINGS)
    def test_without_trained_tokens_every_weight_is_one(self, mapping):
        assert (steer_weights(torch.randn(2, 3), torch.zeros(2, 3), mapping=mapping) == 1).all()


class TestStareWeights:
    def test_ties_at_the_threshold_are_all_in(self):
        weights = stare_weights(-torch.ones(1, 10), torch.ones(1), torch.ones(1, 10), top_fraction=0.1)
        assert (weights == 1.1).all()

    @given(batches())
    def test_only_the_sign_of_advantages_is_read(self, batch):
        (logps, _, _, advantages), mask = batch
        weights = stare_weights(logps, advantages, mask, variant="C2")
        assert torch.equal(weights, stare_weights(logps, advantages.sign() * 7, mask, variant="C2"))
        assert (weights[advantages == 0] == 1).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("change", [entropy_change, released_change])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_bad_token_gets_weight_one(bad, which, change, mapping):
    generator = torch.Generator().manual_seed(0)
    arguments = [-torch.rand(3, 7, generator=generator) for _ in range(2)] + [torch.rand(3, 7, generator=generator)]
    advantages, mask = torch.tensor([1.0, -2.0, 0.5]), torch.ones(3, 7)
    without = mask.clone()
    without[1, 2] = 0
    clean_steer = steer_weights(change(*arguments, advantages), without, mapping=mapping)
    clean_stare = stare_weights(arguments[0], advantages, without, variant="C2", top_fraction=0.3)
    arguments[which][1, 2] = bad
    assert torch.equal(steer_weights(change(*arguments, advantages), mask, mapping=mapping), clean_steer)
    assert clean_steer[1, 2] == 1
    if which == 0:
        assert torch.equal(stare_weights(arguments[0], advantages, mask, variant="C2", top_fraction=0.3), clean_stare)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_are_computed_in_float32(dtype):
    logps = -torch.rand(2, 5).to(dtype)
    arguments = logps, logps - 0.1, torch.rand(2, 5).to(dtype), torch.randn(2).to(dtype)
    mask = torch.ones(2, 5)
    omega = entropy_change(*arguments)
    assert torch.equal(omega, entropy_change(*(x.float() for x in arguments)))
    outputs = omega, steer_weights(omega.to(dtype), mask), stare_weights(logps, arguments[3], mask)
    phi = entropy_sensitivity(torch.randn(2, 5).to(dtype), torch.tensor([1, 2]))
    assert {x.dtype for x in (*outputs, phi)} == {torch.float32}


def test_weights_carry_no_gradient():
    logps = (-torch.rand(2, 5)).requires_grad_()
    omega = entropy_change(logps, logps.detach(), logps.abs(), torch.ones(2))
    weights = steer_weights(omega, torch.ones(2, 5)), stare_weights(logps, torch.ones(2), torch.ones(2, 5))
    assert not any(x.requires_grad for x in (omega, *weights))


class TestEntropySensitivity:
    @settings(max_examples=50)
    @given(st.integers(0, 2**31), st.integers(2, 30), st.floats(0.1, 8.0))
    def test_mean_over_the_policy_is_zero(self, seed, vocabulary, spread):
        logits = torch.randn(vocabulary, generator=torch.Generator().manual_seed(seed)) * spread
        phi = entropy_sensitivity(logits.expand(vocabulary, -1), torch.arange(vocabulary))
        assert (logits.softmax(-1) * phi).sum().abs() < 1e-6

    @pytest.mark.parametrize("token", range(5))
    def test_agrees_with_finite_differences_in_float64(self, token):
        logits = torch.tensor([1.3, -0.4, 0.2, 2.1, -1.7], dtype=torch.float64)

        def entropy(x):
            return torch.distributions.Categorical(logits=x).entropy()

        # The policy gradient of ln pi(token): the token's logit up, all logits down by their probability.
        direction = torch.nn.functional.one_hot(torch.tensor(token), 5) - logits.softmax(0)
        step = 1e-6
        slope = (entropy(logits + step * direction) - entropy(logits - step * direction)) / (2 * step)
        phi = entropy_sensitivity(logits, torch.tensor(token))
        assert -phi.item() == pytest.approx(slope.item(), abs=1e-6)

    @given(st.integers(0, 2**31), st.integers(2, 30), st.floats(0.1, 8.0))
    def test_masked_tokens_do_nothing(self, seed, vocabulary, spread):
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(vocabulary, generator=generator) * spread
        is_left = torch.rand(vocabulary, generator=generator) < 0.5
        is_left[0] = True
        masked = logits.masked_fill(~is_left, -torch.inf)
        phi = entropy_sensitivity(masked.expand(vocabulary, -1), torch.arange(vocabulary))
        left = logits[is_left]
        alone = entropy_sensitivity(left.expand(len(left), -1), torch.arange(len(left)))
        assert torch.isfinite(phi).all()
        torch.testing.assert_close(phi[is_left], alone)


def two_temperatures(logits, token_ids):
    """What a fused head returns of float64 `logits`, at their temperature and at half of it."""
    numbers = []
    for x in (logits, 2 * logits):
        logps = x.log_softmax(-1)
        chosen = logps.gather(-1, token_ids.unsqueeze(-1)).squeeze(-1)
        numbers += [chosen, -(logps.exp() * logps).nan_to_num(0.0).sum(-1)]
    return numbers


class TestEntropySensitivityWithoutLogits:
    @given(st.integers(0, 2**31), st.sampled_from([2, 3, 50, 500]), st.floats(0.0, 8.0))
    def test_sensitivity_equals_the_logits_form(self, seed, vocabulary, spread):
        generator = torch.Generator().manual_seed(seed)
        logits = spread * torch.randn(vocabulary, generator=generator, dtype=torch.float64)
        logits, token_ids = logits.expand(vocabulary, -1), torch.arange(vocabulary)
        ours = without_logits(*two_temperatures(logits, token_ids))
        torch.testing.assert_close(ours, entropy_sensitivity(logits, token_ids), atol=2e-5, rtol=1e-4)

    def test_extreme_distributions_have_no_sensitivity(self):
        """A certain token, an impossible-looking one, a uniform distribution, and what nobody scored."""
        logits = torch.tensor([[60.0, 0.0, 0.0], [60.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
        token_ids = torch.tensor([0, 1, 2])
        ours = without_logits(*two_temperatures(logits, token_ids))
        assert ours.abs().max() < 1e-6
        zeros = torch.zeros(2, 3)
        assert (without_logits(zeros, zeros, zeros, zeros) == 0).all()
