"""DCPO's bounds, loss and memory, against loops and an explicit loss."""

import json
import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.methods.batches import (
    SEEDS,
    clipped_loss,
    gradient,
    method,
    trained,
    weights,
)
from support.methods.oracles import mean, z_scores

from steer_trl.shaping import Rollout, TokenBatch


def test_dcpo():
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
    shaper = method("dcpo", dcpo_epsilon_low=e_low, dcpo_epsilon_high=e_high)
    low, high = (x.item() for x in shaper.bounds(torch.tensor(q, dtype=torch.float64)))
    assert 0.5 <= low <= 1 <= high <= 10
    assert (1 - low) * low == pytest.approx(min(e_low / q, 0.25))
    assert (high - 1) * high == pytest.approx(min(e_high / q, 9 * 10))


@pytest.mark.parametrize(("epsilon", "low", "high"), [(0.2, 0.5, 10.0), (0.0, 1.0, 1.0)])
def test_dcpo_bounds_where_the_probability_underflows(epsilon, low, high):
    shaper = method("dcpo", dcpo_epsilon_low=epsilon, dcpo_epsilon_high=epsilon)
    assert [x.item() for x in shaper.bounds(torch.tensor([-200.0]).exp())] == [low, high]


class TestSmoothAdvantages:
    """DCPO's, against all rewards that each prompt ever had."""

    def epochs(self, seed):
        g = torch.Generator().manual_seed(seed)
        for _ in range(4):
            rewards = torch.tensor([0.0, 0.3, 1.0])[torch.randint(3, (12,), generator=g)]
            prompts = [name for i in torch.randperm(3, generator=g).tolist() for name in ["abc"[i]] * 4]
            yield Rollout(4, torch.ones(12, 2), torch.zeros(12, 1), rewards, prompts=prompts)

    @settings(max_examples=50)
    @given(SEEDS)
    def test_brute_force(self, seed):
        shaper, seen = method("dcpo", dcpo_smooth=True), {}
        for rollout in self.epochs(seed):
            ours = shaper.advantages(rollout).tolist()
            for start in range(0, 12, 4):
                rewards = rollout.rewards[start : start + 4].tolist()
                ever = seen.setdefault(rollout.prompts[start], [])
                ever += rewards
                i, center = len(ever) / 4, mean(ever)
                std = math.sqrt(mean((x - center) ** 2 for x in ever))
                for own, x, new in zip(ours[start : start + 4], rewards, z_scores(rewards, 1e-6), strict=True):
                    total = (x - center) / (std + 1e-6) if std > 1e-6 else 0.0
                    both = ((i - 1) * new + total) / i, (new + (i - 1) * total) / i
                    assert abs(own) == pytest.approx(min(map(abs, both)), abs=1e-3)
                    assert min(abs(own - x) for x in both) < 1e-3

    @given(SEEDS)
    def test_a_first_epoch_is_grpo(self, seed):
        rollout = next(self.epochs(seed))
        expected = [x for i in (0, 4, 8) for x in z_scores(rollout.rewards[i : i + 4].tolist(), 1e-6)]
        ours = method("dcpo", dcpo_smooth=True).advantages(rollout)
        torch.testing.assert_close(ours, torch.tensor(expected), atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("reward", [1.0, 0.1, 1.1])
    def test_equal_rewards_teach_nothing_in_any_epoch(self, reward):
        shaper = method("dcpo", dcpo_smooth=True)
        rollout = Rollout(15, torch.ones(15, 2), torch.zeros(15, 1), torch.full((15,), reward), prompts=["a"] * 15)
        assert [shaper.advantages(rollout).abs().max().item() for _ in range(3)] == [0.0] * 3

    def test_the_memory_survives_a_checkpoint(self):
        shaper, again, empty = (method("dcpo", dcpo_smooth=True) for _ in range(3))
        *past, last = self.epochs(0)
        for rollout in past:
            shaper.advantages(rollout)
        again.load_state_dict(json.loads(json.dumps(shaper.state_dict())))
        ours = shaper.advantages(last)
        assert torch.equal(ours, again.advantages(last)) and not torch.equal(ours, empty.advantages(last))


@pytest.mark.parametrize("state", [{}, {"seen": [1]}, {"seen": None}, None], ids=str)
def test_dcpos_memory_is_no_mapping(state):
    with pytest.raises(ValueError, match=r"^seen (is missing and )?must be a mapping|^the state must be"):
        method("dcpo", dcpo_smooth=True).load_state_dict(state)


def test_dcpo_without_memory_takes_none():
    shaper = method("dcpo")
    shaper.load_state_dict({"seen": {"a": [2, 0.5, 0.1]}})
    assert shaper.seen == {}
