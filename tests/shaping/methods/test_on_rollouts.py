"""Identities of the methods that act on rollouts."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods.batches import SEEDS, kept, method, of_rewards, random_rollout
from support.runs import of_method


@pytest.mark.parametrize(("name", "advantage"), [("w_reinforce", 0.1), ("psr", 1.0), ("nsr", 0.0)])
def test_a_group_that_is_all_right_teaches(name, advantage):
    assert method(name).advantages(of_rewards([1.0] * 4)).tolist() == pytest.approx([advantage] * 4)


@pytest.mark.parametrize("loss_type", ["dapo", "bnpo", "grpo", "dr_grpo"])
@pytest.mark.parametrize(("name", "sign"), [("psr", 1), ("nsr", -1)])
@given(SEEDS, st.sampled_from([0.0, 0.3]))
def test_dropping_averages_over_the_rest(name, sign, loss_type, seed, missing):
    rollout = random_rollout(seed, (-1.0, 1.0), missing)
    ours = kept(name, loss_type=loss_type).advantages(rollout).double()
    losses, lengths = (rollout.logps * rollout.mask).double().sum(1), rollout.mask.sum(1)
    rest = rollout.rewards * sign > 0
    if loss_type in ("grpo", "dr_grpo"):
        losses, lengths = losses / lengths, torch.ones_like(lengths)
    of_all = (ours * losses).sum() / lengths.sum()
    assert of_all.item() == pytest.approx(sign * (losses[rest].sum() / lengths[rest].sum().clamp(min=1)).item())
    assert (ours[~rest] == 0).all()


@pytest.mark.parametrize(("threshold", "right"), [(0.0, [0, 1, 1, 1]), (0.5, [0, 0, 0, 1])])
def test_right_is_above_the_threshold(threshold, right):
    shaper = method("w_reinforce", correct_threshold=threshold, **of_method("w_reinforce", positive=2.0))
    assert shaper.advantages(of_rewards([0.0, 0.1, 0.5, 0.6])).tolist() == [2.0 if x else -1.0 for x in right]


def test_gtpo_skips_tokens_without_an_entropy():
    entropies = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)) + 0.1
    mask, bad = torch.ones(4, 3), entropies.clone()
    mask[1:3, 1], bad[1:3, 1] = 0, torch.nan
    rollout = of_rewards([1.0, 1.0, 0.0, 0.0], entropies=bad)
    ours, clean = (method("gtpo").shaped_rewards(x) for x in (rollout, replace(rollout, mask=mask)))
    torch.testing.assert_close(ours[mask.bool()], clean[mask.bool()])


def test_unlikelihood_breaks_ties_the_same_way_each_time():
    rollout = of_rewards([1.0] * 8, logps=torch.full((8, 3), -1.0))
    one, other = (method("unlikelihood").advantages(rollout).tolist() for _ in range(2))
    assert one == other and len(set(one)) == 8


def test_edge_grpo_leaves_a_completion_without_entropy_alone():
    rollout = of_rewards([1.0] * 4, entropies=torch.tensor([[0.0], [0.1], [1.0], [2.9]]).expand(4, 3))
    assert method("edge_grpo").scales(rollout).tolist() == pytest.approx([1, 10, 1, 1 / 2.9])


def test_ppl_bounds_its_scores():
    logps = torch.tensor([-9.0] + [0.0] * 39).unsqueeze(1).expand(40, 3)
    ours = method("ppl", **of_method("ppl", alpha=0.3)).scales(of_rewards([1.0] * 40, logps=logps))
    assert ours[0].item() == pytest.approx(1 - 0.3 * 3) and (ours > 0).all()


@pytest.mark.parametrize("name", ["maxrl", "pass_at_k"])
@pytest.mark.parametrize("rewards", [[0.0, 0.1, 1.0, 1.0], [1.0, 2.0, 2.0, 1.0], [-1.0, 0.0, math.nan, 0.0]])
def test_rewards_of_more_than_two_values_are_refused(name, rewards):
    with pytest.raises(ValueError, match=rf"'{name}'.* {min(rewards):g}, .*'f_grpo'"):
        method(name).check_rewards(torch.tensor(rewards), torch.tensor(rewards))


@given(SEEDS)
def test_what_is_kept_has_the_mean_of_the_loss(seed):
    """The factor all / kept: of tokens, or of completions, of which the loss leaves out those that are truncated."""
    rollout = random_rollout(seed, empty=True)
    trained = rollout.mask.sum(1)
    for name, sign in (("nsr", -1.0), ("psr", 1.0)):
        kept = (rollout.rewards > 0) == (sign > 0)
        for loss_type, counts in (("dapo", trained), ("grpo", torch.ones_like(trained))):
            ours = method(name, loss_type=loss_type).advantages(rollout)
            assert (ours[~kept] == 0).all()
            if (trained[kept] > 0).any():
                mean = (ours * counts)[trained > 0].sum() / counts.sum()
                assert mean.item() == pytest.approx(sign)


def test_k_below_the_completions_of_a_group():
    with pytest.raises(ValueError, match=r"pass_at_k.*num_generations=8"):
        method("pass_at_k", pass_at_k=8)
