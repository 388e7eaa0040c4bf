"""Every method beside STEER against its paper: numbers worked out by hand, loops in float64, explicit losses."""

import json
import math
import re
from dataclasses import replace
from functools import cache
from itertools import permutations, product
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import ROOT
from support.runs import ON_CPU
from torch.utils._python_dispatch import TorchDispatchMode

from steer_trl import SteerGRPOConfig, shaping
from steer_trl.functional.order_statistics import this_process
from steer_trl.randomness import uniform
from steer_trl.shaping import SHAPERS, Rollout, Shaper, TokenBatch, make_shapers
from steer_trl.shaping.base import OF_ROLLOUTS

SEEDS = st.integers(0, 2**31)
IN_THE_LOSS = [name for name, shaper in SHAPERS.items() if shaper.overrides("weights") or shaper.overrides("bonus")]
ON_ROLLOUTS = [name for name, shaper in SHAPERS.items() if any(map(shaper.overrides, OF_ROLLOUTS))]
REPLACING = [name for name in ON_ROLLOUTS if SHAPERS[name].overrides("advantages")]
EXACT = {"shaping_scope": "micro_batch"}  # a near tie decides as it does in a sort


def config(*names, **options):
    return SteerGRPOConfig(output_dir="unused", advantage_shaping=list(names), **ON_CPU | options)


def method(name, **options):
    return SHAPERS[name](config(name, **options))


kept = cache(method)  # for methods without a state: made once for all examples


def advantages(name, rollout, **options):
    """On the mask `[N, T]`; 0 off it."""
    made = kept(name, **options) if name != "dcpo" else method("dcpo", dcpo_smooth=True)
    return shaping.shape_rollout([made], rollout) * rollout.mask


def measure(shaper, batch):
    return shaper.measure(batch, this_process) if shaper.compares else None


def weights(shaper, batch):
    return shaper.weights(batch, measure(shaper, batch))


def bonus(shaper, batch):
    return shaper.bonus(batch, measure(shaper, batch))


def shaped(shapers, batch):
    return shaping.shaped(shapers, batch, shaping.measured(shapers, batch, this_process))


def random_batch(seed):
    """Tokens with ratios on both sides of every bound, masked ones, and completions without advantage or tokens."""
    g = torch.Generator().manual_seed(seed)
    shape = torch.randint(2, 7, (2,), generator=g).tolist()
    noise, *uniforms = torch.randn(shape, generator=g), *torch.rand(5, *shape, generator=g)
    old = -3 * uniforms[0] - 0.02
    some = torch.rand(shape[0], 2, generator=g) < torch.tensor([0.8, 0.9])
    given_advantages = torch.randn(shape[0], 1, generator=g) * some[:, :1]
    mask = (uniforms[1] < 0.7) & some[:, 1:]
    entropies = 3 * uniforms[2], 3 * uniforms[3]
    return TokenBatch(
        old * torch.exp(noise / 2), old, *entropies, given_advantages, mask.long(), 0.2, 0.28, uniforms[4]
    )


def random_rollout(seed, outcomes=(0.0, 1.0), missing=0.0, empty=False):
    """Groups with gaps in their masks. Entropies are round, so that two are equal or well apart."""
    g = torch.Generator().manual_seed(seed)
    size, groups, width = (int(torch.randint(low, high, (), generator=g)) for low, high in ((2, 6), (1, 4), (1, 7)))
    rows = size * groups
    mask = (torch.rand(rows, width, generator=g) < 0.7).long()
    if not empty:
        mask[torch.arange(rows), torch.randint(width, (rows,), generator=g)] = 1
    rewards = torch.tensor(outcomes)[torch.randint(len(outcomes), (rows,), generator=g)]
    rewards = torch.where(torch.rand(rows, generator=g) < missing, torch.nan, rewards)
    logps, entropies = -3 * torch.rand(rows, width, generator=g), torch.randint(1, 30, (rows, width), generator=g) / 10
    prompts = [f"prompt {row // size}" for row in range(rows)]
    return Rollout(size, mask, torch.randn(rows, 1, generator=g), rewards, logps, entropies, prompts)


class TestGoldenFixture:
    """One group of four completions, worked out in float64 to five decimals."""

    A = torch.tensor([0.86602, -0.86602, 0.86602, -0.86602]).unsqueeze(1)
    MASK = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]])
    P = torch.tensor([[0.9, 0.2, 0.6], [0.5, 0.05, 1.0], [0.99, 0.3, 0.7], [0.8, 1.0, 1.0]]).log()
    Q = torch.tensor([[0.8, 0.25, 0.6], [0.5, 0.1, 1.0], [0.98, 0.2, 0.7], [0.8, 1.0, 1.0]]).log()
    H = torch.tensor([[0.3, 1.5, 0.9], [0.7, 2.0, 0.0], [0.05, 1.2, 0.6], [0.5, 0.0, 0.0]])
    BATCH = TokenBatch(P, Q, H, H, A, MASK, epsilon_low=1.0, epsilon_high=1.0, draws=torch.full((4, 3), 0.5))
    ROLLOUT = Rollout(4, MASK, A, torch.tensor([1.0, 0.0, 1.0, 0.0]), logps=Q, entropies=H)

    def check(self, ours, expected):
        if len(expected) == 4:
            expected = [x for x, length in zip(expected, (3, 2, 3, 1), strict=True) for _ in range(length)]
        ours = ours.expand(4, 3)[self.MASK.bool()]
        torch.testing.assert_close(ours, torch.tensor(expected), atol=1.5e-5, rtol=0)

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("opo", [1 / 3, -2 / 3, 1 / 3, -2 / 3]),
            ("w_reinforce", [0.1, -1, 0.1, -1]),
            ("unlikelihood", [0.92465, -0.86500, 0.80534, -0.86500]),
            ("edge_grpo", [0.80989, -0.53993, 1.18201, -1.45781]),
            ("ppl", [0.86714, -0.85364, 0.86982, -0.87350]),
            ("gtpo", [0.73116, 0.67636, 0.68443, -1.31738, -1.33252, 0.60136, 0.65617, 0.64809, -1.34766]),
        ],
    )
    def test_advantages(self, name, expected):
        rollout = replace(self.ROLLOUT, logps=self.P) if name == "ppl" else self.ROLLOUT
        self.check(advantages(name, rollout), expected)

    def test_gtpo_rewards(self):
        expected = [1.17143, 1.11111, 1.12, -1.08333, -1.1, 1.02857, 1.08889, 1.08, -1.11667]
        self.check(method("gtpo").shaped_rewards(self.ROLLOUT), expected)

    def test_entropy_advantage(self):
        expected = [0.98602, 1.29904, 1.22602, -0.58602, -0.43301, 0.88602, 1.29904, 1.10602, -0.66602]
        self.check(self.A + bonus(method("entropy_advantage"), self.BATCH), expected)

    def test_covariances_are_the_smallest_that_kl_cov_holds(self):
        sorted_ones = [2.47019, 0.48869, 0.43366, 0.28856, 0.19956, -0.18860, -0.20062, -0.43472, -0.73132]
        for held, smallest in enumerate(sorted_ones, start=1):
            measures = measure(method("kl_cov", kl_cov_fraction=held / 9), self.BATCH)
            assert [x.item() for x in measures] == pytest.approx([0.288675, -0.856483, smallest], abs=1.5e-5)

    def test_kl_cov_turns_the_top_token(self):
        ours = self.A + bonus(method("kl_cov"), self.BATCH)
        self.check(ours, [0.86602] * 3 + [-0.86602, 1.13398] + [0.86602] * 3 + [-0.86602])

    def test_clip_cov_drops_the_one_token_of_the_pool(self):
        self.check(weights(method("clip_cov"), self.BATCH), [1.0] * 4 + [0.0] + [1.0] * 4)
        # Its ratio is 0.5: with the usual bounds the loss clips it already, and the pool is empty.
        assert (weights(method("clip_cov"), replace(self.BATCH, epsilon_low=0.2)) == 1).all()

    def test_dcpo_bounds(self):
        low, high = method("dcpo").bounds(self.Q.exp())
        self.check(low, [0.5] * 5 + [0.71429] + [0.5] * 3)
        self.check(high, [1.27460, 1.67047, 1.34656, 1.4, 2.24642, 1.23193, 1.78452, 1.30623, 1.27460])


# Oracles: what each method makes of the scored completions of a group, in Python's float64.


class Completion(NamedTuple):
    """`logps` and `entropies` of its trained tokens, by their place."""

    reward: float
    advantage: float
    logps: dict[int, float]
    entropies: dict[int, float]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def z_scores(values, eps):
    """By the unbiased deviation; 0 where all are equal."""
    center = mean(values)
    std = math.sqrt(sum((x - center) ** 2 for x in values) / max(len(values) - 1, 1))
    return [(x - center) / (std + eps) if std > 1e-6 else 0.0 for x in values]


def opo(group, size):
    baseline = sum(len(c.logps) * c.reward for c in group) / sum(len(c.logps) for c in group)
    return [c.reward - baseline for c in group]


def unlikelihood(group, size, beta=0.25):
    likelihood = [mean(c.logps.values()) for c in group]
    ranks = [sum(other < own for other in likelihood) for own in likelihood]
    factors = [1 - beta * rank / size if c.reward > 0 else 1 for c, rank in zip(group, ranks, strict=True)]
    return z_scores([c.reward * factor for c, factor in zip(group, factors, strict=True)], 1e-6)


def share(own, peers):
    return len(peers) * own / sum(peers)


def gtpo_rewards(group, version="v2"):
    rows = []
    for c in group:
        rows.append({})
        for t, h in c.entropies.items():
            alive = [d.entropies[t] for d in group if t in d.entropies and (d.reward > 0) == (c.reward > 0)]
            wrong = c.reward if version == "v1" else -1 - 0.1 * share(1 / h, [1 / x for x in alive])
            rows[-1][t] = c.reward + 0.1 * share(h, alive) if c.reward > 0 else wrong
    return rows


def scored_by_token(rows):
    """z-scores over all tokens of several completions."""
    scores = iter(z_scores([x for row in rows for x in row.values()], 1e-8) if any(rows) else [])
    return [{t: next(scores) for t in row} for row in rows]


def gtpo(group, size):
    return scored_by_token(gtpo_rewards(group))


def gtpo_v1(group, size):
    return scored_by_token(gtpo_rewards(group, version="v1"))


def gtpo_separate(group, size):
    rows = list(zip(group, gtpo_rewards(group), strict=True))
    right, wrong = (scored_by_token([r if (c.reward > 0) == side else {} for c, r in rows]) for side in (True, False))
    return [one or other for one, other in zip(right, wrong, strict=True)]


def grpo_s(group, size):
    rewards = []
    for c in group:
        own = mean(c.entropies.values())
        peers = [mean(d.entropies.values()) for d in group if (d.reward > 0) == (c.reward > 0)]
        wrong = -1 - 0.1 * share(1 / own, [1 / x for x in peers])
        rewards.append(c.reward + 0.1 * share(own, peers) if c.reward > 0 else wrong)
    return z_scores(rewards, 1e-6)


def w_reinforce(group, size):
    return [0.1 if c.reward > 0 else -1.0 for c in group]


def edge_grpo(group, size):
    entropies = [mean(c.entropies.values()) for c in group]
    return [c.advantage / (h / mean(entropies)) for c, h in zip(group, entropies, strict=True)]


def ppl(group, size, alpha=0.01):
    w = z_scores([-mean(c.logps.values()) for c in group], 0.0)
    return [c.advantage * (1 - alpha * max(-3.0, min(3.0, x))) for c, x in zip(group, w, strict=True)]


def position(group, size):
    def bonuses(c):
        return {t: 0.1 / (1 + math.exp(-(n + 1) / len(c.logps))) for n, t in enumerate(sorted(c.logps))}

    return [{t: c.advantage + math.copysign(b, c.advantage) for t, b in bonuses(c).items()} for c in group]


def expected_advantages(oracle, rollout, size):
    """The oracle's advantages `[N, T]`, `size` completions at a time; 0 for unscored ones and off the mask."""
    result, rows = torch.zeros(rollout.mask.shape), []
    for i, mask in enumerate(rollout.mask.tolist()):
        tokens = [{t: x[i, t].item() for t, m in enumerate(mask) if m} for x in (rollout.logps, rollout.entropies)]
        rows.append((i, Completion(rollout.rewards[i].item(), rollout.advantages[i].item(), *tokens)))
    for start in range(0, len(rows), size):
        scored = [(i, c) for i, c in rows[start : start + size] if not math.isnan(c.reward)]
        values = oracle([c for _, c in scored], size) if scored else []
        for (i, c), value in zip(scored, values, strict=True):
            for t in c.logps:
                result[i, t] = value[t] if isinstance(value, dict) else value
    return result


ORACLES = {oracle: {} for oracle in (opo, unlikelihood, w_reinforce, gtpo, grpo_s, edge_grpo, ppl, position)}
ORACLES |= {gtpo_v1: {"gtpo_version": "v1"}, gtpo_separate: {"gtpo_normalize": "separate"}}


@pytest.mark.parametrize("oracle", ORACLES)
@given(SEEDS, st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (1.0,)]), st.sampled_from([0.0, 0.3]))
def test_advantages_are_the_papers_loops(oracle, seed, outcomes, missing):
    name = oracle.__name__.removesuffix("_v1").removesuffix("_separate")
    rollout = random_rollout(seed, outcomes, missing)
    if name not in REPLACING:  # what scales or adds keeps the advantage of a completion that nothing could score
        unscored = rollout.rewards.isnan().unsqueeze(1)
        rollout = replace(rollout, advantages=torch.where(unscored, 0.0, rollout.advantages))
    ours, theirs = (
        advantages(name, rollout, **ORACLES[oracle]),
        expected_advantages(oracle, rollout, rollout.num_generations),
    )
    torch.testing.assert_close(ours, theirs, atol=5e-4, rtol=5e-4)


class TestAdvantages:
    """Identities of the methods that act on rollouts."""

    def rollout(self, rewards, **others):
        count = len(rewards)
        others = {"mask": torch.ones(count, 3), "advantages": torch.ones(count, 1)} | others
        return Rollout(count, rewards=torch.tensor(rewards), **others)

    @given(SEEDS, st.sampled_from([0.0, 0.3]))
    def test_opo_sums_to_zero_over_the_tokens_of_a_group(self, seed, missing):
        rollout = random_rollout(seed, (0.0, 0.4, 1.0), missing)
        assert (
            advantages("opo", rollout).view(-1, rollout.num_generations, rollout.mask.size(1)).sum((1, 2)).abs().max()
            < 1e-4
        )

    def test_opo_takes_the_mean_where_lengths_are_equal(self):
        ours = method("opo").advantages(self.rollout([1.0, 0.0, 0.0, 0.2]))
        torch.testing.assert_close(ours, torch.tensor([0.7, -0.3, -0.3, -0.1]))

    @pytest.mark.parametrize(("name", "advantage"), [("w_reinforce", 0.1), ("psr", 1.0), ("nsr", 0.0)])
    def test_a_group_that_is_all_right_teaches(self, name, advantage):
        assert method(name).advantages(self.rollout([1.0] * 4)).tolist() == pytest.approx([advantage] * 4)

    @pytest.mark.parametrize("loss_type", ["dapo", "bnpo", "grpo", "dr_grpo"])
    @pytest.mark.parametrize(("name", "sign"), [("psr", 1), ("nsr", -1)])
    @given(SEEDS, st.sampled_from([0.0, 0.3]))
    def test_dropping_makes_the_loss_a_mean_over_the_rest(self, name, sign, loss_type, seed, missing):
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
    def test_right_is_above_the_threshold(self, threshold, right):
        shaper = method("w_reinforce", correct_threshold=threshold, w_reinforce_positive=2.0)
        assert shaper.advantages(self.rollout([0.0, 0.1, 0.5, 0.6])).tolist() == [2.0 if x else -1.0 for x in right]

    @given(SEEDS)
    def test_gtpo_conserves_the_reward_of_each_position(self, seed):
        rollout = random_rollout(seed)
        for side, sign in ((rollout.rewards > 0, 1), (rollout.rewards == 0, -1)):
            members = (rollout.mask.bool() & side.unsqueeze(1)).view(-1, rollout.num_generations, rollout.mask.size(1))
            rewards = kept("gtpo", gtpo_reward_weight=0.9).shaped_rewards(rollout).view_as(members)
            total = torch.where(members, rewards, 0.0).sum(1)
            torch.testing.assert_close(total, sign * members.sum(1).float(), atol=1e-5, rtol=1e-5)

    @given(SEEDS, st.sampled_from([0.0, 0.3]))
    def test_gtpo_is_centered_jointly_or_on_each_side(self, seed, missing):
        rollout = random_rollout(seed, missing=missing)
        separate = advantages("gtpo", rollout, gtpo_normalize="separate")
        sides = [separate * side.unsqueeze(1) for side in (rollout.rewards > 0, rollout.rewards == 0)]
        for ours in (advantages("gtpo", rollout), *sides):
            assert ours.reshape(-1, rollout.num_generations * ours.size(1)).sum(1).abs().max() < 1e-3

    def test_gtpo_takes_a_token_without_an_entropy_out_of_the_others_shares(self):
        entropies = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)) + 0.1
        mask, bad = torch.ones(4, 3), entropies.clone()
        mask[1:3, 1], bad[1:3, 1] = 0, torch.nan
        rollout = self.rollout([1.0, 1.0, 0.0, 0.0], entropies=bad)
        ours, clean = (method("gtpo").shaped_rewards(x) for x in (rollout, replace(rollout, mask=mask)))
        torch.testing.assert_close(ours[mask.bool()], clean[mask.bool()])

    @given(SEEDS, st.randoms(use_true_random=False))
    def test_unlikelihood_follows_the_order_of_the_completions(self, seed, random):
        rollout = random_rollout(seed)
        size = rollout.num_generations
        order = [start + i for start in range(0, len(rollout.mask), size) for i in random.sample(range(size), size)]
        moved = {name: getattr(rollout, name)[order] for name in ("mask", "rewards", "logps")}
        ours, again = (advantages("unlikelihood", x) for x in (rollout, replace(rollout, **moved)))
        torch.testing.assert_close(again, ours[order])

    def test_unlikelihood_teaches_groups_that_are_all_right_and_not_those_that_are_all_wrong(self):
        logps = torch.tensor([[-1.0], [-3.0], [-2.0], [-4.0]]).expand(4, 3)
        ours = method("unlikelihood").advantages(self.rollout([1.0] * 4, logps=logps))
        assert ours.argsort().tolist() == [0, 2, 1, 3] and ours[0] < -1 < 1 < ours[3]
        assert (method("unlikelihood").advantages(self.rollout([-1.0] * 4, logps=logps)) == 0).all()

    def test_unlikelihood_breaks_ties_the_same_way_each_time(self):
        rollout = self.rollout([1.0] * 8, logps=torch.full((8, 3), -1.0))
        one, other = (method("unlikelihood").advantages(rollout).tolist() for _ in range(2))
        assert one == other and len(set(one)) == 8

    def test_edge_grpo_clamps(self):
        rollout = self.rollout([1.0] * 4, entropies=torch.tensor([[0.0], [0.1], [1.0], [2.9]]).expand(4, 3))
        # The first has no entropy to speak of.
        for clamp, expected in ((None, [1, 10, 1, 1 / 2.9]), ([0.5, 2], [1, 2, 1, 0.5])):
            ours = method("edge_grpo", edge_grpo_clamp=clamp).scales(rollout)
            assert ours.flatten().tolist() == pytest.approx(expected)

    @given(SEEDS)
    def test_ppl_of_the_rollout_compares_all_completions(self, seed):
        rollout = random_rollout(seed)
        expected = expected_advantages(ppl, rollout, len(rollout.mask))
        torch.testing.assert_close(advantages("ppl", rollout, ppl_scope="rollout"), expected, atol=5e-4, rtol=5e-4)

    @pytest.mark.parametrize("scope", ["group", "rollout"])
    def test_ppl_bounds_its_scores(self, scope):
        logps = torch.tensor([-9.0] + [0.0] * 39).unsqueeze(1).expand(40, 3)
        ours = method("ppl", ppl_scope=scope, ppl_alpha=0.3).scales(self.rollout([1.0] * 40, logps=logps))
        assert ours[0].item() == pytest.approx(1 - 0.3 * 3) and (ours > 0).all()

    def test_position_grows_along_the_trained_tokens(self):
        given_ones, by_a_tool = torch.tensor([[2.0], [-2.0], [0.0]]), torch.tensor([[1, 0, 0, 1]] * 3)
        rollout = self.rollout([0.0] * 3, mask=by_a_tool, advantages=given_ones)
        bonuses = [0.1 / (1 + math.exp(-3 * rho)) for rho in (0.5, 1.0)]
        ours = shaping.shape_rollout([method("position", position_slope=3.0)], rollout)[:, [0, 3]].tolist()
        assert ours == [pytest.approx([sign * (2 + b) for b in bonuses]) for sign in (1, -1)] + [[0.0, 0.0]]
        steps = method("position").rollout_bonus(replace(rollout, mask=torch.ones(3, 7))).diff(dim=1)
        assert (steps[0] > 0).all() and (steps[1] < 0).all()


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


# Explicit losses in float64, and the surrogate that TRL has with its clipping switched off.


def gradient(loss, logps):
    logps = logps.double().requires_grad_()
    return torch.autograd.grad(loss(logps), logps)[0]


def clipped_loss(ratio, advantage, low, high, dual=math.inf):
    """The clipped loss of each token or completion."""
    loss = -torch.minimum(ratio * advantage, torch.clamp(ratio, low, high) * advantage)
    return torch.where(advantage < 0, torch.minimum(loss, -dual * advantage), loss)


def trained(batch):
    """The places of the trained tokens."""
    return [tuple(place) for place in batch.mask.bool().nonzero().tolist()]


def chosen(selected, batch):
    return {place for place in trained(batch) if selected[place]}


def covariances(batch):
    """The covariance of each trained token, largest first, and its place."""
    a, lp = batch.advantages.double().expand(batch.logps.shape), batch.logps.double()
    numbers = {place: (a[place].item(), lp[place].item()) for place in trained(batch)}
    means = [mean(column) for column in zip(*numbers.values(), strict=True)]
    return sorted((((x - means[0]) * (y - means[1]), place) for place, (x, y) in numbers.items()), reverse=True)


class TestExplicitLosses:
    @pytest.mark.parametrize("dual", [10.0, 3.0])
    def test_dcpo(self, dual):
        """For likely and unlikely tokens, on all sides of every bound."""
        ratios = [0.2, 0.55, 0.72, 0.9, 1.0, 1.2, 1.6, 2.9, 5.0, 12.0]
        q, ratio, a = torch.tensor(list(product([0.02, 0.3, 0.9], ratios, [1.5, -0.7, 0.0]))).T.reshape(3, 9, 10)
        batch = TokenBatch(q.log() + ratio.log(), q.log(), q, q, a, torch.ones_like(q), 1.0, 1e9)
        low, high = (torch.zeros(q.shape, dtype=torch.float64) for _ in range(2))
        for place in trained(batch):
            low[place] = 0.5 + 0.5 * math.sqrt(max(1 - 4 * 0.2 / q[place], 0))
            high[place] = min(0.5 + 0.5 * math.sqrt(1 + 4 * 0.28 / q[place]), 10)
        shaper, old = method("dcpo", dcpo_dual_clip=dual), batch.old_logps.double()
        explicit = gradient(lambda lp: clipped_loss((lp - old).exp(), a.double(), low, high, dual).sum(), batch.logps)
        effective = a * weights(shaper, batch)
        ours = gradient(lambda lp: -((lp - old).exp() * effective).sum(), batch.logps)
        torch.testing.assert_close(ours, explicit, atol=1e-6, rtol=1e-5)
        for side in ((a > 0), (a < 0) & (ratio < 1), (a < 0) & (ratio > dual)):
            assert (explicit[side] == 0).any()
        marked = shaper.marks(batch, None)
        assert torch.equal(marked["dcpo/clipped_low"] | marked["dcpo/clipped_high"], (explicit == 0) & (a != 0))

    @settings(max_examples=50)
    @given(SEEDS, st.sampled_from([0.002, 0.1, 0.5, 1.0]), st.sampled_from([0.3, 1.0]))
    def test_kl_cov(self, seed, fraction, coef):
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

        effective = a + bonus(kept("kl_cov", kl_cov_fraction=fraction, kl_cov_coef=coef, **EXACT), batch)
        ours = gradient(lambda lp: -((lp - old).exp() * effective * batch.mask).sum(), batch.logps)
        torch.testing.assert_close(ours, gradient(explicit, batch.logps), atol=1e-5, rtol=1e-4)

    @given(SEEDS)
    def test_grpo_s(self, seed):
        batch = random_batch(seed)
        a, old, lengths = batch.advantages.double(), batch.old_logps.double(), batch.mask.sum(1).clamp(min=1)

        def mean_ratio(lp, of_token=1.0):
            return ((lp - old).exp() * of_token * batch.mask).sum(1) / lengths

        explicit = gradient(lambda lp: clipped_loss(mean_ratio(lp), a.squeeze(1), 0.8, 1.28).mean(), batch.logps)
        effective = a * weights(kept("grpo_s"), batch)
        ours = gradient(lambda lp: -mean_ratio(lp, effective).mean(), batch.logps)
        torch.testing.assert_close(ours, explicit, atol=1e-6, rtol=1e-5)

    @given(SEEDS)
    def test_weights_on_the_advantages_are_weights_on_the_loss(self, seed):
        batch = random_batch(seed)
        result = shaped({name: kept(name) for name in ("steer", "stare", "fork_tokens")}, batch)
        assert (result.weights >= 0).all()

        def loss(lp, a):
            return clipped_loss((lp - batch.old_logps.double()).exp(), a.double().expand_as(lp), 0.8, 1.28, 3.0)

        outside = gradient(lambda lp: (result.weights * loss(lp, batch.advantages)).sum(), batch.logps)
        inside = gradient(lambda lp: loss(lp, result.advantages).sum(), batch.logps)
        torch.testing.assert_close(inside, outside, atol=1e-5, rtol=1e-5)


class TestStare:
    OPERATIONS = {"O1": (1, True, 2.0), "O2": (1, False, 0.5), "O3": (-1, False, 2.0), "O4": (-1, True, 0.5)}
    COMBINED = {"C1": ("O1", "O3"), "C2": ("O1", "O4"), "C3": ("O2", "O3"), "C4": ("O2", "O4")}

    def omega(self, batch, variant, **options):
        options = {"stare_gate": "none", "stare_amplify": 2.0, "stare_attenuate": 0.5} | options
        if not {"O2", "O3", "C1", "C3", "C4"} & {variant}:
            options.pop("stare_low_set", None)  # refused where no expected token is touched
        if variant in ("O1", "O3", "C1"):
            options.pop("stare_attenuate")  # refused where nothing is attenuated
        if variant in ("O2", "O4", "C4"):
            options.pop("stare_amplify")
        return weights(kept("stare", stare_variant=variant, **EXACT, **options), batch)

    @pytest.mark.parametrize("low_set", ["complement", "bottom"])
    @pytest.mark.parametrize("variant", OPERATIONS)
    @given(SEEDS, st.sampled_from([0.1, 0.25, 0.5, 0.8, 1.0]))
    def test_sets(self, variant, low_set, seed, fraction):
        batch = random_batch(seed)
        sign, surprising, weight = self.OPERATIONS[variant]
        side = sorted(
            (place for place in trained(batch) if sign * batch.advantages[place[0]] > 0), key=batch.logps.__getitem__
        )
        count = min(len(side), max(1, math.floor(len(side) * fraction + 0.999999)))
        low = side[count if low_set == "complement" else max(count, len(side) - count) :]
        ours = self.omega(batch, variant, stare_low_set=low_set, stare_top_fraction=fraction)
        assert chosen(ours == weight, batch) == set(side[:count] if surprising else low)
        assert (ours[ours != weight] == 1).all()

    @pytest.mark.parametrize("low_set", ["complement", "bottom"])
    @pytest.mark.parametrize("variant", COMBINED)
    @given(SEEDS)
    def test_combined_variants_are_unions_of_disjoint_sets(self, variant, low_set, seed):
        batch, options = random_batch(seed), {"stare_low_set": low_set, "stare_top_fraction": 0.3}
        one, other = (self.omega(batch, name, **options) for name in self.COMBINED[variant])
        assert not ((one != 1) & (other != 1)).any()
        assert torch.equal(self.omega(batch, variant, **options), one * other)

    @given(SEEDS)
    def test_a_fixed_probability_takes_no_quantile(self, seed):
        batch = random_batch(seed)
        ours = self.omega(batch, "C4", stare_fixed_probability=0.4)
        likely, a = batch.logps.exp() >= 0.4, batch.advantages
        assert chosen(ours == 0.5, batch) == chosen(((a > 0) & likely) | ((a < 0) & ~likely), batch)

    @given(SEEDS)
    def test_gates_of_completions_and_of_tokens(self, seed):
        batch, options, target = random_batch(seed), {"stare_top_fraction": 0.5}, {"stare_target_entropy": 1.5}
        always = self.omega(batch, "C1", stare_gate="none", **options)
        sample, token = (self.omega(batch, "C1", stare_gate=g, **options, **target) for g in ("sample", "token"))
        for i, t in trained(batch):
            of_completion = mean(batch.old_entropies[i, u].item() for j, u in trained(batch) if j == i)
            assert sample[i, t] == (always[i, t] if of_completion < 1.5 else 1)
            assert token[i, t] == (always[i, t] if batch.old_entropies[i, t] < 1.5 else 1)

    @pytest.mark.parametrize("gate", ["batch", "sample", "token", "none"])
    def test_only_the_gate_of_the_batch_closes_everything(self, gate):
        shaper = method("stare", stare_gate=gate)
        assert shaper.active  # until the first rollout is known
        shaper.on_rollout(0.3)  # equal to the target: closed
        assert shaper.active is (gate != "batch")


class TestTokenMethods:
    """Properties of the other methods that act in the loss."""

    @given(SEEDS, st.floats(0.0, 5.0), st.floats(1.01, 9.0))
    def test_the_entropy_advantage_never_turns_an_advantage(self, seed, alpha, kappa):
        batch = random_batch(seed)
        ours = bonus(method("entropy_advantage", entropy_advantage_alpha=alpha, entropy_advantage_kappa=kappa), batch)
        assert torch.equal((batch.advantages + ours).sign(), batch.advantages.sign().expand_as(ours))
        assert (ours >= 0).all()

    @given(SEEDS, st.sampled_from([0.01, 0.3, 1.0]))
    def test_clip_cov(self, seed, fraction):
        batch = random_batch(seed)
        assume(batch.mask.any())
        cov, a = covariances(batch), batch.advantages
        assume(all(abs(abs(value) - 0.5) > 1e-4 for value, _ in cov))
        ratio = (batch.logps.double() - batch.old_logps.double()).exp()
        clipped = ((a > 0) & (ratio > 1.28)) | ((a < 0) & (ratio < 0.8))
        pool = {place for value, place in cov if -0.5 < value < 0.5 and not clipped[place]}
        shaper = kept("clip_cov", clip_cov_fraction=fraction, clip_cov_lower=-0.5, clip_cov_upper=0.5)
        ours = weights(shaper, batch)
        dropped = chosen(ours == 0, batch)
        assert dropped <= pool and len(dropped) == min(max(math.floor(fraction * len(cov) + 1e-9), 1), len(pool))
        assert set(ours.unique().tolist()) <= {0.0, 1.0} and torch.equal(weights(shaper, batch), ours)

    def test_clip_cov_draws_every_token_of_the_pool_equally_often(self):
        g = torch.Generator().manual_seed(0)
        batch = TokenBatch(
            *-torch.rand(4, 4, 5, generator=g), torch.randn(4, 1, generator=g), torch.ones(4, 5), 1, 1e9
        )
        shaper = method("clip_cov", clip_cov_fraction=0.1, clip_cov_lower=-100.0, clip_cov_upper=100.0)
        draws = [uniform(0, step, torch.arange(4), 5) for step in range(600)]
        times = sum(weights(shaper, replace(batch, draws=x)) == 0 for x in draws)
        assert times.sum() == 600 * 2 and (times - 60).abs().max() < 4.5 * math.sqrt(60)

    @pytest.mark.parametrize("advantage", [0.0, 1.0])
    def test_kl_cov_holds_no_more_than_its_share_where_all_advantages_are_equal(self, advantage):
        """Groups that teach nothing, or a micro-batch of one completion: every covariance is 0."""
        numbers = -torch.rand(4, 4, 10, generator=torch.Generator().manual_seed(0))
        batch = TokenBatch(*numbers, torch.full((4, 1), advantage), torch.ones(4, 10), 1.0, 1e9)
        assert (bonus(method("kl_cov", kl_cov_fraction=0.1), batch) != 0).sum() <= 4

    @given(st.floats(1e-6, 1.0), st.floats(0.01, 0.9), st.floats(0.01, 3.0))
    def test_dcpo_bounds_solve_their_equations(self, q, e_low, e_high):
        shaper = method("dcpo", dcpo_epsilon_low=e_low, dcpo_epsilon_high=e_high)
        low, high = (x.item() for x in shaper.bounds(torch.tensor(q, dtype=torch.float64)))
        assert 0.5 <= low <= 1 <= high <= 10
        assert (1 - low) * low == pytest.approx(min(e_low / q, 0.25))
        assert (high - 1) * high == pytest.approx(min(e_high / q, 9 * 10))

    @pytest.mark.parametrize(("epsilon", "low", "high"), [(0.2, 0.5, 10.0), (0.0, 1.0, 1.0)])
    def test_dcpo_bounds_where_the_probability_underflows(self, epsilon, low, high):
        shaper = method("dcpo", dcpo_epsilon_low=epsilon, dcpo_epsilon_high=epsilon)
        assert [x.item() for x in shaper.bounds(torch.tensor([-200.0]).exp())] == [low, high]

    @given(SEEDS, st.sampled_from([0.05, 0.2, 0.5]))
    def test_fork_tokens_make_the_mean_over_tokens_one_over_the_uncertain(self, seed, fraction):
        batch = random_batch(seed)
        assume(batch.mask.any())
        ours = weights(kept("fork_tokens", fork_tokens_fraction=fraction, **EXACT), batch)
        places = sorted(trained(batch), key=batch.entropies.__getitem__, reverse=True)
        uncertain = places[: max(1, math.floor(fraction * len(places) + 0.9999))]
        assert chosen(ours != 0, batch) == set(uncertain)
        over_all = mean((ours * batch.logps)[place].item() for place in places)
        assert over_all == pytest.approx(mean(batch.logps[place].item() for place in uncertain), rel=1e-5)

    @pytest.mark.parametrize(("action", "weight"), [("mask", 0.0), ("double", 2.0)])
    @pytest.mark.parametrize("quadrant", ["I", "II", "III", "IV"])
    def test_quadrant(self, quadrant, action, weight):
        rows = torch.arange(40)
        q, draws = uniform(1, 0, rows, 1000).clamp(min=1e-3), uniform(2, 0, rows, 1000)
        a = torch.tensor([1.0, -1.0, 0.0, 2.0]).repeat(10).unsqueeze(1)
        # Doubling moves the current probabilities over the thresholds: those at rollout time count.
        batch = TokenBatch(2 * q.log(), q.log(), q, q, a, torch.ones_like(q), 0.2, 0.2, draws)
        members = (q > 0.8 if quadrant in ("I", "IV") else q < 0.2) & (a > 0 if quadrant in ("I", "II") else a < 0)
        ours = weights(method("quadrant", quadrant=quadrant, quadrant_action=action), batch)
        drawn, count = ours == weight, members.sum().item()
        assert not (drawn & ~members).any() and (ours[~drawn] == 1).all()
        assert abs(drawn.sum().item() - 0.1 * count) < 4 * math.sqrt(0.09 * count)
        everything = method("quadrant", quadrant=quadrant, quadrant_action=action, quadrant_fraction=1.0)
        assert torch.equal(weights(everything, batch) == weight, members)

    @pytest.mark.parametrize("name", IN_THE_LOSS)
    @given(SEEDS)
    def test_an_optimizer_step_does_not_depend_on_how_it_is_split(self, name, seed):
        batch, shapers = random_batch(seed), {name: kept(name)}
        tensors = {field: x for field, x in vars(batch).items() if isinstance(x, torch.Tensor)}
        parts = [replace(batch, **{f: x[rows] for f, x in tensors.items()}) for rows in (slice(1), slice(1, None))]
        ahead = shaping.measured(shapers, TokenBatch.merged(parts), this_process)
        split = torch.cat([shaping.shaped(shapers, part, ahead).advantages for part in parts])
        whole = shaped(shapers, batch).advantages
        torch.testing.assert_close(split * batch.mask, whole * batch.mask, atol=1e-6, rtol=1e-5)


NEUTRAL = [
    ("steer", {"steer_lambda_min": 1.0}),
    ("stare", {"stare_variant": "C2", "stare_amplify": 1.0, "stare_attenuate": 1.0}),
    ("stare", {"stare_top_fraction": 0.0}),
    ("quadrant", {"quadrant_fraction": 0.0}),
    ("entropy_advantage", {"entropy_advantage_alpha": 0.0}),
    ("clip_cov", {"clip_cov_fraction": 0.0}),
    ("kl_cov", {"kl_cov_fraction": 0.0}),
    ("kl_cov", {"kl_cov_coef": 0.0}),
    ("fork_tokens", {"fork_tokens_fraction": 1.0}),
    ("edge_grpo", {"edge_grpo_clamp": [1, 1]}),
    ("ppl", {"ppl_alpha": 0.0}),
    ("position", {"position_gamma": 0.0}),
    ("unlikelihood", {"unlikelihood_beta": 0.0}),
]


@pytest.mark.parametrize(("name", "options"), NEUTRAL, ids=str)
def test_neutral_settings_touch_nothing(name, options):
    shapers = {name: method(name, **options)}
    assert not shapers[name].active and shaping.act_on_rollouts(shapers) == []
    assert shaped(shapers, random_batch(0)).advantages is None


class TestStates:
    """What a checkpoint's file says is checked before it is taken."""

    @pytest.mark.parametrize("entropy", [-0.1, math.nan, math.inf, "0.5", True, [0.5]])
    def test_stares_first_entropy(self, entropy):
        shaper, state = method("stare"), {"gate": False, "initial_entropy": entropy}
        with pytest.raises(ValueError, match=r"^initial_entropy must be null or a number of nats"):
            shaper.load_state_dict(state)
        assert shaper.controller.gate and shaper.initial_entropy is None

    def test_what_is_missing_of_stares(self):
        for name in ("gate", "initial_entropy"):
            state = {"gate": False, "initial_entropy": None}
            del state[name]
            with pytest.raises(ValueError, match=f"^{name} is missing and must be"):
                method("stare").load_state_dict(state)

    @pytest.mark.parametrize(
        "memory",
        [[0, 0.5, 0.1], [1.5, 0.5, 0.1], [1, math.nan, 0.1], [1, 0.5, -0.1], [1, 0.5, math.inf], [1, 0.5], None, 3],
        ids=str,
    )
    def test_dcpos_memory(self, memory):
        shaper = method("dcpo", dcpo_smooth=True)
        with pytest.raises(ValueError, match=r"^seen\['b'\] must be \[groups, mean, variance\].* got "):
            shaper.load_state_dict({"seen": {"a": [2, 0.5, 0.1], "b": memory}})
        assert shaper.seen == {}

    @pytest.mark.parametrize("state", [{}, {"seen": [1]}, {"seen": None}, None], ids=str)
    def test_dcpos_memory_is_no_mapping(self, state):
        with pytest.raises(ValueError, match=r"^seen (is missing and )?must be a mapping|^the state must be"):
            method("dcpo", dcpo_smooth=True).load_state_dict(state)

    def test_dcpo_without_memory_takes_none(self):
        shaper = method("dcpo")
        shaper.load_state_dict({"seen": {"a": [2, 0.5, 0.1]}})
        assert shaper.seen == {}


class NoFloatCumsum(TorchDispatchMode):
    """Fails where CUDA would under `full_determinism`: it has no deterministic cumsum of floats."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert "cumsum" not in str(function) or not args[0].is_floating_point(), f"{function} of floats"
        return function(*args, **kwargs or {})


class TestDeterminism:
    @pytest.mark.parametrize("name", SHAPERS)
    def test_no_float_is_cumsummed(self, name):
        rollout, batch = random_rollout(3), random_batch(1)
        with NoFloatCumsum():
            advantages(name, rollout) if name in ON_ROLLOUTS else shaped({name: method(name)}, batch)

    def test_the_custom_method_of_the_docs(self):
        (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/methods.md").read_text(), re.S)
        exec(code, scope := {})
        args = SimpleNamespace(shaping_scope="step", shaping_options={"last": 0.5})
        batch = replace(random_batch(1), mask=torch.tensor([[1, 0, 1, 1, 1]]))
        with NoFloatCumsum():
            ours = scope["FadeOut"](args).weights(batch, None)
        torch.testing.assert_close(ours[0, [0, 2, 3, 4]], torch.tensor([0.875, 0.75, 0.625, 0.5]))


class TestBadNumbers:
    def spoilt(self, rollout, where):
        logps, entropies = (
            torch.where(where, -torch.inf, rollout.logps),
            torch.where(where, torch.nan, rollout.entropies),
        )
        return replace(rollout, logps=logps, entropies=entropies)

    @pytest.mark.parametrize("name", REPLACING)
    @given(SEEDS)
    def test_a_completion_that_nothing_could_score_has_no_say(self, name, seed):
        rollout = random_rollout(seed, missing=0.4)
        missing = rollout.rewards.isnan()
        ours, theirs = (advantages(name, x) for x in (rollout, self.spoilt(rollout, missing.unsqueeze(1))))
        assert (ours[missing] == 0).all()
        torch.testing.assert_close(ours, theirs)

    @pytest.mark.parametrize("name", ["edge_grpo", "ppl"])
    @given(SEEDS)
    def test_what_scales_leaves_it_out_of_its_group_and_as_it_is(self, name, seed):
        rollout = random_rollout(seed, missing=0.4)
        missing = rollout.rewards.isnan().unsqueeze(1)
        ours, theirs = (advantages(name, x) for x in (rollout, self.spoilt(rollout, missing)))
        torch.testing.assert_close(ours, theirs)
        assert torch.equal(ours * missing, rollout.advantages * rollout.mask * missing)

    @pytest.mark.parametrize("logp", [-90.0, -104.0, -300.0])
    def test_kl_cov_leaves_a_token_alone_whose_ratio_has_no_inverse(self, logp):
        logps, old, ones = torch.tensor([[logp, -0.5, -0.7]]), torch.tensor([[-1.0, -0.5, -0.7]]), torch.ones(1, 3)
        a = torch.tensor([[-1.0, 1.0, 0.3]])
        assert (
            bonus(method("kl_cov", kl_cov_fraction=0.4), TokenBatch(logps, old, ones, ones, a, ones, 1, 1)).eq(0).all()
        )

    @pytest.mark.parametrize("name", ON_ROLLOUTS)
    @given(SEEDS, st.sampled_from([(0.0, 1.0), (1.0,), (0.0,), (-1.0,)]))
    def test_advantages_are_finite(self, name, seed, outcomes):
        """With empty completions, equal rewards, and tokens without log-probability or entropy."""
        rollout = random_rollout(seed, outcomes, missing=0.2, empty=True)
        hit = torch.rand(rollout.mask.shape, generator=torch.Generator().manual_seed(seed)) < 0.2
        assert advantages(name, self.spoilt(rollout, hit)).isfinite().all()

    @pytest.mark.parametrize("name", ["opo", "gtpo", "grpo_s", "dcpo"])
    def test_equal_completions_teach_nothing(self, name):
        ones = torch.ones(6, 3)
        rollout = Rollout(3, ones, ones[:, :1], torch.full((6,), 0.1), -ones, ones, ["a"] * 3 + ["b"] * 3)
        torch.testing.assert_close(advantages(name, rollout), 0 * ones, atol=1e-7, rtol=0)

    @pytest.mark.parametrize("name", IN_THE_LOSS)
    def test_a_micro_batch_with_nothing_to_learn_stays_as_it_is(self, name):
        batch, shapers = random_batch(1), {name: method(name)}
        masked = shaped(shapers, replace(batch, mask=0 * batch.mask))
        assert (masked.weights == 1).all()
        assert torch.equal(masked.advantages, batch.advantages.expand_as(batch.logps))
        balanced = shaped(shapers, replace(batch, advantages=0 * batch.advantages)).advantages
        assert balanced.isfinite().all() and (name == "kl_cov" or (balanced == 0).all())

    OPTIONS = {
        "stare": {"stare_variant": "C1", "stare_top_fraction": 0.4},
        "clip_cov": {"clip_cov_lower": -0.1, "clip_cov_fraction": 0.3},
        "kl_cov": {"kl_cov_fraction": 0.3},
    }

    def batch(self):
        """No token is clipped; (1, 2) is of a right completion, and in no quadrant."""
        g = torch.Generator().manual_seed(0)
        old, (entropies, draws) = -torch.rand(4, 5, generator=g) - 0.3, torch.rand(2, 4, 5, generator=g)
        logps, a = old + 0.05 * torch.randn(4, 5, generator=g), torch.tensor([[1.0], [0.5], [-2.0], [-0.3]])
        return TokenBatch(logps, old, entropies, entropies + 0.1, a, torch.ones(4, 5), 0.2, 0.28, draws)

    @pytest.mark.parametrize("name", IN_THE_LOSS)
    @pytest.mark.parametrize("bad", [-math.inf, math.nan])
    def test_a_bad_token_is_left_alone(self, name, bad):
        batch, shaper, at = (
            self.batch(),
            method(name, **self.OPTIONS.get(name, {})),
            torch.zeros(4, 5, dtype=torch.bool),
        )
        at[1, 2] = True
        changes = {"logps": bad, "entropies": math.nan, "old_entropies": math.nan}
        spoilt = replace(batch, **{f: torch.where(at, value, getattr(batch, f)) for f, value in changes.items()})
        for answer, neutral in ((weights, 1), (bonus, 0)):
            ours, clean = answer(shaper, spoilt), answer(shaper, replace(batch, mask=(~at).float()))
            assert ours is None or (ours.isfinite().all() and ours[1, 2] == neutral)
            if name not in (
                "fork_tokens",
                "grpo_s",
            ):  # the first's N counts it, the second's ratio is the completion's
                assert ours is None or torch.equal(ours[~at], clean[~at])

    @pytest.mark.parametrize("name", IN_THE_LOSS)
    def test_an_old_log_probability_of_minus_infinity(self, name):
        batch, shaper = self.batch(), method(name, **self.OPTIONS.get(name, {}))
        batch.old_logps[1, 2] = -math.inf
        assert all(x is None or x.isfinite().all() for x in (weights(shaper, batch), bonus(shaper, batch)))


class Recording(Shaper):
    """A method of one's own: it doubles, and remembers what it was given."""

    def weights(self, batch, measure):
        self.given = batch.advantages
        return torch.full_like(batch.logps, 2.0)


class TestCombinations:
    def both(self, seed=3):
        """A rollout that is one micro-batch; the third has groups of both kinds."""
        r = random_rollout(seed)
        noise, draws = torch.rand(2, *r.mask.shape, generator=torch.Generator().manual_seed(seed))
        logps = r.logps + 0.6 * (noise - 0.5)
        return r, TokenBatch(logps, r.logps, r.entropies, r.entropies, r.advantages, r.mask, 0.2, 0.28, draws)

    def applied(self, shapers, rollout, batch):
        """What a trainer does with them: the advantages on the mask, and the weights."""
        before = shaping.shape_rollout(shaping.act_on_rollouts(shapers), rollout)
        result = shaped(shapers, replace(batch, advantages=before))
        after = before if result.advantages is None else result.advantages
        return after * batch.mask, result.weights

    def test_stages_act_in_their_order_whatever_the_order_of_the_names(self):
        rollout, batch = self.both()
        expected = method("opo").advantages(rollout).unsqueeze(1)
        for name in ("edge_grpo", "ppl"):
            expected = expected * method(name).scales(rollout).float().unsqueeze(1)
        expected = expected + bonus(method("entropy_advantage"), replace(batch, advantages=expected))
        batch_with_bonus = replace(batch, advantages=expected)
        for name in ("steer", "stare"):
            expected = expected * weights(method(name), batch_with_bonus)
        names = ("opo", "edge_grpo", "ppl", "entropy_advantage", "steer", "stare")
        for order in list(permutations(names))[::60]:
            ours, _ = self.applied(make_shapers(config(*order)), rollout, batch)
            torch.testing.assert_close(ours, expected * batch.mask)

    @pytest.mark.parametrize("adding", ["entropy_advantage", "position"])
    def test_weights_are_given_the_advantages_with_the_bonus(self, adding):
        rollout, batch = self.both()
        own = f"{__name__}:Recording"
        shapers = make_shapers(config(own, adding))
        ours, _ = self.applied(shapers, rollout, batch)
        alone, _ = self.applied(make_shapers(config(adding)), rollout, batch)
        torch.testing.assert_close(shapers[own].given * batch.mask, alone)
        torch.testing.assert_close(ours, 2 * alone)

    @pytest.mark.parametrize("names", ["steer stare", "clip_cov steer", "fork_tokens quadrant", "edge_grpo ppl"])
    @settings(max_examples=20)
    @given(SEEDS)
    def test_multiplicative_methods_commute(self, names, seed):
        orders = names.split(), names.split()[::-1]
        one, other = (self.applied(make_shapers(config(*order)), *self.both(seed)) for order in orders)
        torch.testing.assert_close(one, other)

    REFUSED = (
        "opo gtpo|unlikelihood psr|w_reinforce grpo_s|entropy_advantage position|position kl_cov|clip_cov quadrant|"
        "kl_cov steer|stare dcpo|dcpo entropy_advantage|grpo_s fork_tokens|grpo_s dcpo|dcpo opo|dcpo ppl"
    )

    @pytest.mark.parametrize("smooth", [False, True])
    @pytest.mark.parametrize("names", REFUSED.split("|"))
    def test_what_does_not_go_together_is_refused(self, names, smooth):
        for order in (names.split(), names.split()[::-1]):
            if names in ("dcpo opo", "dcpo ppl") and not smooth:
                assert list(make_shapers(config(*order))) == order
                continue
            with pytest.raises(ValueError, match="cannot be combined") as error:
                config(*order, dcpo_smooth=smooth)
            assert any(all(repr(name) in line for name in order) for line in str(error.value).splitlines())

    UNCLIPPED = {"epsilon": 1.0, "epsilon_high": 1e9, "delta": None}
    SURROGATES = {"dcpo": UNCLIPPED, "kl_cov": UNCLIPPED, "grpo_s": UNCLIPPED | {"loss_type": "grpo"}}

    @pytest.mark.parametrize("name", SURROGATES)
    def test_a_loss_of_its_own_switches_trls_clipping_off(self, name):
        needed = self.SURROGATES[name]
        for args in (config(name), config(name, **needed)):
            assert {setting: getattr(args, setting) for setting in needed} == needed

    OTHERS = {"epsilon": 0.3, "epsilon_high": 0.28, "delta": 10.0, "loss_type": "cispo"}

    @pytest.mark.parametrize("name", SURROGATES)
    @pytest.mark.parametrize("setting", [*OTHERS, "importance_sampling_level"])
    def test_a_loss_of_its_own_refuses_what_it_would_ignore(self, name, setting):
        value = self.OTHERS.get(setting, "sequence")
        with pytest.raises(ValueError, match=f"{setting}={value!r} cannot be combined with '{name}'"):
            config(name, **{setting: value})


WRONG = {
    "quadrant": ["V", None],
    "quadrant_action": ["drop"],
    "quadrant_fraction": [-0.1, 1.1, math.nan, "0.1"],
    "entropy_advantage_alpha": [-0.1, math.inf],
    "entropy_advantage_kappa": [1.0, 0.5],
    "clip_cov_fraction": [-1e-4, 1.5],
    "clip_cov_lower": [5.0, math.nan, "1"],
    "clip_cov_upper": [1.0, math.nan],
    "kl_cov_fraction": [-0.1, 2],
    "kl_cov_coef": [-1.0, math.nan],
    "w_reinforce_positive": [-0.1, True],
    "gtpo_reward_weight": [0.0, -1.0],
    "gtpo_entropy_weight": [-0.1],
    "gtpo_normalize": ["apart"],
    "gtpo_version": ["v3"],
    "grpo_s_epsilon_low": [-0.1, 1.1],
    "grpo_s_epsilon_high": [-0.1],
    "edge_grpo_clamp": [[0.0, 1.0], [2.0, 1.0], [1.0], [math.nan, 1.0], 0.5, ["0.1", 10]],
    "ppl_alpha": [-0.01, 0.34],
    "ppl_scope": ["batch"],
    "position_gamma": [-0.1],
    "position_slope": [-1.0],
    "unlikelihood_beta": [-0.1, 1.1],
    "dcpo_epsilon_low": [-0.1, math.nan],
    "dcpo_epsilon_high": [-0.1],
    "dcpo_dual_clip": [0.9],
    "fork_tokens_fraction": [0.0, 1.1],
    "correct_threshold": ["0", None, math.nan],
    "stare_gate": ["row"],
    "stare_low_set": ["top"],
    "stare_fixed_probability": [0.0, 1.0],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_setting_out_of_range_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=f"{field}(=| must be )"):
        config("none", **{field: value})


@pytest.mark.parametrize("separator", [":", "."])
def test_a_method_of_ones_own_is_found_by_its_import_path(separator):
    name = f"{__name__}{separator}Recording"
    assert type(make_shapers(config(name))[name]) is Recording


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Method", "No module named 'no_such_module'"),
        ("no_such_module.Method", "No module named 'no_such_module'"),
        ("steer_trl.shaping.methods.opo:Missing", "no attribute 'Missing'"),
        ("math:sqrt", "must be a subclass of steer_trl.shaping.Shaper"),
        ("collections.OrderedDict", "must be a subclass of steer_trl.shaping.Shaper"),
        ("not a path:x", "cannot be imported"),
        ("opoo", "is unknown. Use one of 'steer', .*'opo'"),
    ],
)
def test_a_bad_import_path_is_refused_with_its_reason(name, message):
    with pytest.raises(ValueError, match=message) as error:
        config(name)
    assert f"advantage_shaping={name!r}" in str(error.value)


class TestDraws:
    @given(SEEDS, st.integers(0, 10**6), st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.integers(1, 20))
    def test_a_wider_batch_begins_alike_and_a_row_does_not_know_the_others(self, seed, step, rows, width):
        draws = uniform(seed, step, torch.tensor(rows), width + 7)
        assert torch.equal(draws[:, :width], uniform(seed, step, torch.tensor(rows), width))
        assert torch.equal(draws[-1:], uniform(seed, step, torch.tensor(rows[-1:]), width + 7))

    def test_each_seed_step_and_row_has_its_own(self):
        draws = [uniform(seed, step, torch.arange(4), 8) for seed in range(3) for step in range(3)]
        assert len({tuple(row) for several in draws for row in several.tolist()}) == 3 * 3 * 4

    def test_uniform(self):
        draws = uniform(0, 1, torch.arange(200), 500)
        assert draws.dtype == torch.float32 and draws.min() >= 0 and draws.max() < 1
        assert (draws.flatten().mul(20).long().bincount(minlength=20) - 5000).abs().max() < 5 * math.sqrt(5000)
