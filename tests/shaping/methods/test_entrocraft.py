"""Entrocraft's filter is Algorithm 1 of its paper, written out for plain numbers."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods.batches import SEEDS, advantages, method, random_rollout
from support.runs import of_method

from steer_trl import shaping

BAND = of_method("entrocraft", lower=0.6, lower_end=0.2, width=0.1)


def filtered(group, entropy, low, high):
    """The advantages of a group's completions: kept ones over the share that is kept, 0 for the others."""
    m = (entropy > high) - (entropy < low)
    kept = [a for a in group if m * a >= 0]
    return [a * len(group) / len(kept) if m * a >= 0 else 0.0 for a in group]


@given(SEEDS, st.sampled_from([0.05, 0.35, 0.43, 0.47, 0.65, 2.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_filter_is_the_papers_loop(seed, entropy, progress):
    rollout = random_rollout(seed)
    shaper = method("entrocraft", **BAND)
    shaper.progress = progress
    shaper.on_rollout(entropy)
    low = 0.6 - 0.4 * progress
    ours = shaping.shape_rollout([shaper], rollout)
    before = rollout.advantages.view(-1, rollout.num_generations).tolist()
    theirs = [a for group in before for a in filtered(group, entropy, low, low + 0.1)]
    torch.testing.assert_close(ours.squeeze(1), torch.tensor(theirs))


@given(SEEDS)
def test_entrocraft_inside_its_band_is_grpo_bit_for_bit(seed):
    rollout = random_rollout(seed)
    shaper = method("entrocraft", **BAND)
    shaper.on_rollout(0.65)
    assert torch.equal(shaping.shape_rollout([shaper], rollout), rollout.advantages)
    assert torch.equal(advantages("entrocraft", rollout), rollout.advantages * rollout.mask)


@given(SEEDS, st.sampled_from([0.05, 2.0]))
def test_a_completion_without_a_reward_is_in_no_group(seed, entropy):
    rollout = random_rollout(seed, missing=0.3)
    missing = rollout.rewards.isnan()
    turned = torch.where(missing.unsqueeze(1), -rollout.advantages, rollout.advantages)
    shaper = method("entrocraft", **BAND)
    shaper.on_rollout(entropy)
    ours, theirs = (shaper.scales(replace(rollout, advantages=values)) for values in (rollout.advantages, turned))
    assert torch.equal(ours, theirs) and (ours[missing] == 1).all()
    # G counts those with a reward, so the factors of a group with any left have a mean of 1 over them.
    for group, absent in zip(*(x.view(-1, rollout.num_generations) for x in (ours, missing)), strict=True):
        assert (group[~absent] == 0).all() or group[~absent].mean().item() == pytest.approx(1)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_group_of_rejected_completions_is_left_out(sign):
    rollout = random_rollout(0)
    alike = torch.full_like(rollout.advantages, sign)
    shaper = method("entrocraft", **BAND)
    shaper.on_rollout(0.0 if sign > 0 else 9.0)
    assert (shaper.scales(replace(rollout, advantages=alike)) == 0).all()


def test_a_resumed_run_has_the_same_band():
    saved, loaded = method("entrocraft", **BAND), method("entrocraft", **BAND)
    saved.progress = 0.3
    saved.on_rollout(0.1)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.metrics() == saved.metrics() and loaded.direction == saved.direction == -1
