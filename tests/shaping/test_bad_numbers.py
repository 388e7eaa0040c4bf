"""Tokens and completions without a number, and micro-batches with nothing to learn."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods import batches
from support.methods.batches import SEEDS, advantages, bonus, method, random_batch, random_rollout, shaped, weights
from support.runs import of_method

from steer_trl.shaping import SHAPERS, Rollout, TokenBatch


class TestBadNumbers:
    def spoilt(self, rollout, where):
        logps = torch.where(where, -torch.inf, rollout.logps)
        return replace(rollout, logps=logps, entropies=torch.where(where, torch.nan, rollout.entropies))

    @pytest.mark.parametrize("name", [*batches.REPLACING, *batches.SCALING])
    @given(SEEDS)
    def test_unscored_completions_change_nothing(self, name, seed):
        rollout = random_rollout(seed, missing=0.4)
        missing = rollout.rewards.isnan()
        ours, theirs = (advantages(name, x) for x in (rollout, self.spoilt(rollout, missing.unsqueeze(1))))
        before = (rollout.advantages * rollout.mask)[missing]
        assert torch.equal(ours[missing], before if name in batches.SCALING else 0 * before)
        torch.testing.assert_close(ours, theirs)

    @pytest.mark.parametrize("name", [name for name in batches.REPLACING if "correctness" in SHAPERS[name].reads])
    @given(SEEDS)
    def test_completions_that_only_another_function_scored_are_in_no_group(self, name, seed):
        rollout = random_rollout(seed)
        missing = random_rollout(seed, missing=0.4).rewards.isnan()
        rollout = replace(rollout, deciding_rewards=rollout.rewards.masked_fill(missing, torch.nan))
        other = replace(rollout, rewards=torch.where(missing, 1 - rollout.rewards, rollout.rewards))
        ours, theirs = (advantages(name, x) for x in (rollout, self.spoilt(other, missing.unsqueeze(1))))
        assert (ours[missing] == 0).all()
        torch.testing.assert_close(ours, theirs)

    @pytest.mark.parametrize("name", batches.ON_ROLLOUTS)
    @given(SEEDS, st.sampled_from([(0.0, 1.0), (1.0,), (0.0,), (-1.0,)]))
    def test_advantages_are_finite(self, name, seed, outcomes):
        """With empty completions, equal rewards, and tokens without log-probability or entropy."""
        rollout = random_rollout(seed, outcomes, missing=0.2, empty=True)
        hit = torch.rand(rollout.mask.shape, generator=torch.Generator().manual_seed(seed)) < 0.2
        assert advantages(name, self.spoilt(rollout, hit)).isfinite().all()

    @pytest.mark.parametrize("name", ["opo", "gtpo", "grpo_s"])
    def test_equal_completions_teach_nothing(self, name):
        ones = torch.ones(6, 3)
        rollout = Rollout(3, ones, ones[:, :1], torch.full((6,), 0.1), -ones, ones)
        torch.testing.assert_close(advantages(name, rollout), 0 * ones, atol=1e-7, rtol=0)

    @pytest.mark.parametrize("name", batches.IN_THE_LOSS)
    def test_an_empty_micro_batch_stays_unchanged(self, name):
        batch, shapers = random_batch(1), {name: method(name)}
        masked = shaped(shapers, replace(batch, mask=0 * batch.mask))
        assert (masked.weights == 1).all()
        assert torch.equal(masked.advantages, batch.advantages.expand_as(batch.logps))
        balanced = shaped(shapers, replace(batch, advantages=0 * batch.advantages)).advantages
        assert balanced.isfinite().all() and (name in ("kl_cov", "js_to_start") or (balanced == 0).all())

    OPTIONS = {
        "stare": {"stare_variant": "C1", "stare_top_fraction": 0.4},
        "kl_cov": of_method("kl_cov", fraction=0.3),
    }
    OPTIONS |= {"clip_cov": of_method("clip_cov", lower=-0.1, fraction=0.3)}  # which would choose the bad token

    def batch(self):
        """No token is clipped; (1, 2) is of a right completion, and in no quadrant."""
        g = torch.Generator().manual_seed(0)
        old, (entropies, draws) = -torch.rand(4, 5, generator=g) - 0.3, torch.rand(2, 4, 5, generator=g)
        logps, a = old + 0.05 * torch.randn(4, 5, generator=g), torch.tensor([[1.0], [0.5], [-2.0], [-0.3]])
        given = logps, old, entropies, entropies + 0.1, a, torch.ones(4, 5), 0.2, 0.28, draws
        phi, ref = torch.randn(2, 4, 5, generator=g)
        return TokenBatch(*given, sensitivities=phi, ref_logps=old + ref)

    @pytest.mark.parametrize("name", batches.IN_THE_LOSS)
    @pytest.mark.parametrize("bad", [-math.inf, math.nan])
    def test_a_bad_token_is_left_alone(self, name, bad):
        batch, shaper = self.batch(), method(name, **self.OPTIONS.get(name, {}))
        at = torch.zeros(4, 5, dtype=torch.bool)
        at[1, 2] = True
        changes = {"logps": bad, "entropies": math.nan, "old_entropies": math.nan}
        spoilt = replace(batch, **{f: torch.where(at, value, getattr(batch, f)) for f, value in changes.items()})
        for answer, neutral in ((weights, 1), (bonus, 0)):
            ours, clean = answer(shaper, spoilt), answer(shaper, replace(batch, mask=(~at).float()))
            assert ours is None or (ours.isfinite().all() and ours[1, 2] == neutral)
            if name not in ("fork_tokens", "grpo_s"):  # the first's N counts it, the second's ratio has it
                assert ours is None or torch.equal(ours[~at], clean[~at])

    @pytest.mark.parametrize("name", batches.IN_THE_LOSS)
    def test_an_old_log_probability_of_minus_infinity(self, name):
        batch, shaper = self.batch(), method(name, **self.OPTIONS.get(name, {}))
        batch.old_logps[1, 2] = -math.inf
        assert all(x is None or x.isfinite().all() for x in (weights(shaper, batch), bonus(shaper, batch)))
