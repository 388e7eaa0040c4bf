"""What the tests know of each method, one row each: the tests of all methods loop over these rows.

An oracle is what a paper says in loops over plain numbers: of the scored completions of a group, or of a batch.
"""

import math
from functools import partial
from itertools import combinations
from typing import NamedTuple

import torch

from steer_trl.shaping import SHAPERS
from support.methods.oracles import entropy_change, mean, steer_exact, trained, z_scores
from support.runs import of_method


class Case(NamedTuple):
    """The properties of a method that the tests compare with it.

    Attributes:
        needed: the settings of TRL without which the method is refused.
        neutral: settings, each of which makes the method equal to GRPO.
        lively: settings for a hundred tokens, because the papers' shares and bounds are for thousands.
        wrong: the values of its settings that are refused.
        oracles: pairs of a function and settings. The function gives each completion of a group its advantage, or one
            for each of its tokens.
        weights: pairs of a function and settings. The function gives each trained token of a batch, by its place, its
            weight or its bonus.
        scored: of eight completions in two micro-batches, how many get a forward pass of their own.
        gathered_bytes: the bytes per token that come from other ranks, always and if a group lies across ranks. `None`
            if they follow from what the method reads.
        marks: the shares of tokens that it logs.
        two_valued: whether it refuses rewards of more than two values.
        even: whether it averages over each micro-batch, so that the split matters unless all completions have the same
            length.
    """

    needed: dict = {}
    neutral: list = []
    lively: dict = {}
    wrong: dict = {}
    oracles: list = []
    weights: list = []
    scored: int = 0
    gathered_bytes: tuple | None = None
    marks: list = []
    two_valued: bool = False
    even: bool = False


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


def by_entropy(reward, own, peers):
    """A reward with a bonus for a large share of the entropy of its like, or a penalty for a small one."""
    return reward + 0.1 * share(own, peers) if reward > 0 else -1 - 0.1 * share(1 / own, [1 / x for x in peers])


def gtpo(group, size):
    """z-scores over all tokens of the group."""
    rows = []
    for c in group:
        like = [d for d in group if (d.reward > 0) == (c.reward > 0)]
        alive = {t: [d.entropies[t] for d in like if t in d.entropies] for t in c.entropies}
        rows.append({t: by_entropy(c.reward, h, alive[t]) for t, h in c.entropies.items()})
    scores = iter(z_scores([x for row in rows for x in row.values()], 1e-8) if any(rows) else [])
    return [{t: next(scores) for t in row} for row in rows]


def grpo_s(group, size):
    rewards = []
    for c in group:
        like = [mean(d.entropies.values()) for d in group if (d.reward > 0) == (c.reward > 0)]
        rewards.append(by_entropy(c.reward, mean(c.entropies.values()), like))
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


def maxrl(group, size):
    rate = mean(c.reward > 0 for c in group)
    return [((c.reward > 0) - rate) / rate if rate else 0 for c in group]


def f_grpo(group, size, gamma=1.0):
    return [c.advantage * (1 - mean(d.reward > 0 for d in group)) ** gamma for c in group]


def pass_at_k(group, size, k=2, scaled=True):
    """A subset of k completions has an advantage among all of them, and a completion the mean of its subsets'."""
    subsets = list(combinations(range(len(group)), k))
    passes = [float(any(group[i].reward > 0 for i in subset)) for subset in subsets]
    if len(set(passes)) < 2:
        return [0] * len(group)
    std = math.sqrt(mean((x - mean(passes)) ** 2 for x in passes)) if scaled else 1
    own = [[x for x, subset in zip(passes, subsets, strict=True) if i in subset] for i in range(len(group))]
    return [(mean(x) - mean(passes)) / std for x in own]


def repo_r(batch, zeta=0.05):
    weights = {}
    for i, t in trained(batch):
        a, lp = batch.advantages[i, 0].item(), batch.logps[i, t].item()
        weights[i, t] = min(max(1 - zeta * lp * ((a > 0) - (a < 0)), 0.0), 3.0)
    return weights


def entropy_advantage(batch):
    """What it adds."""
    bonus = torch.minimum(0.4 * batch.entropies, batch.advantages.abs() / 2)
    return {place: bonus[place].item() for place in trained(batch)}


def differential_smoothing(group, size, gamma=1e-3, gamma_incorrect=0.0):
    surprisals = [-sum(c.logps.values()) for c in group]
    factors = [gamma if c.reward > 0 else -gamma_incorrect for c in group]
    return [c.advantage + x * s for c, x, s in zip(group, factors, surprisals, strict=True)]


def js_to_start(batch, beta=0.05):
    """What it adds: minus beta times the derivative of the paper's f at u."""
    bonus = {}
    for i, t in trained(batch):
        u = math.exp(batch.logps[i, t].item() - batch.ref_logps[i, t].item())
        bonus[i, t] = -beta * (math.log(u) + 1 - math.log((u + 1) / 2) - 1)
    return bonus


COMPARING = {"scored": 8}  # what compares the probabilities of a group's completions
CASES = {
    "steer": Case(
        neutral=[{"steer_lambda_min": 1.0}, {"steer_lambda_min": 1.0, "steer_form": "exact"}],
        lively={"steer_lambda_min": 0.3},
        weights=[(steer_exact, {"steer_form": "exact"})],
        wrong={"steer_form": ["papr"]},
        scored=4,
    ),
    "stare": Case(
        neutral=[{"stare_variant": "C2", "stare_amplify": 1.0, "stare_attenuate": 1.0}, {"stare_top_fraction": 0.0}],
        lively={"stare_variant": "C3", "stare_gate": "sample"}
        | {"stare_target_entropy": 1.0, "stare_target_entropy_unit": "initial"},
        wrong={"stare_gate": ["row"]},
        scored=8,
    ),
    "repo_r": Case(
        neutral=[of_method("repo_r", zeta=0.0)],
        lively=of_method("repo_r", zeta=0.5),
        weights=[(repo_r, {}), (partial(repo_r, zeta=-1.0), of_method("repo_r", zeta=-1.0))],
        wrong={"zeta": [-1.1, "0.1"]},
    ),
    "clip_cov": Case(
        neutral=[of_method("clip_cov", fraction=0.0)],
        lively=of_method("clip_cov", fraction=0.2, lower=-9.0, upper=9.0),
        wrong={"fraction": [-1e-4], "lower": [5.0], "upper": [1.0]},
        scored=4,
        marks=["clip_cov/dropped"],
    ),
    "dcpo": Case(
        lively=of_method("dcpo", epsilon_low=1e-3, epsilon_high=1e-3),
        marks=["dcpo/clipped_low", "dcpo/clipped_high"],
    ),
    "differential_smoothing": Case(
        **COMPARING,
        neutral=[of_method("differential_smoothing", gamma=0.0)],
        lively=of_method("differential_smoothing", gamma=0.1, gamma_incorrect=0.05),
        wrong={"gamma": [-0.1], "gamma_incorrect": ["0"]},
        oracles=[
            (differential_smoothing, {}),
            (
                partial(differential_smoothing, gamma=0.0, gamma_incorrect=0.2),
                of_method("differential_smoothing", gamma=0.0, gamma_incorrect=0.2),
            ),
        ],
    ),
    "maxrl": Case(oracles=[(maxrl, {})], two_valued=True),
    "f_grpo": Case(neutral=[of_method("f_grpo", gamma=0.0)], oracles=[(f_grpo, {})]),
    "pass_at_k": Case(
        neutral=[{"pass_at_k": 1}],
        lively={"pass_at_k": 2},
        wrong={"pass_at_k": [0, 1.5]},
        oracles=[
            (pass_at_k, {"pass_at_k": 2}),
            (partial(pass_at_k, k=3, scaled=False), {"pass_at_k": 3, "scale_rewards": "none"}),
        ],
        two_valued=True,
    ),
    "edge_grpo": Case(**COMPARING, oracles=[(edge_grpo, {})]),
    "entrocraft": Case(  # its oracle needs the entropy of a rollout: tests/shaping/methods/test_entrocraft.py
        lively=of_method("entrocraft", lower=9.0, lower_end=8.0),
        wrong={"lower": [-0.1], "lower_end": [True], "width": [-1.0]},
        scored=8,
    ),
    "entropy_advantage": Case(neutral=[of_method("entropy_advantage", alpha=0.0)], weights=[(entropy_advantage, {})]),
    "entropy_bonus": Case(  # its oracle is TRL's own bonus: tests/trainer/test_entropy_bonus.py
        neutral=[of_method("entropy_bonus", coef=0.0)],
        lively=of_method("entropy_bonus", coef=0.2),
        wrong={"coef": [0.21]},
        even=True,
    ),
    "entropy_change": Case(
        neutral=[of_method("entropy_change", strength=0.0)],
        lively=of_method("entropy_change", strength=1.0),
        weights=[
            (entropy_change, {}),
            (partial(entropy_change, strength=-1.0), of_method("entropy_change", strength=-1.0)),
        ],
        scored=4,
    ),
    "fork_tokens": Case(neutral=[of_method("fork_tokens", fraction=1.0)], scored=4),
    "grpo_s": Case(**COMPARING, oracles=[(grpo_s, {})], marks=["grpo_s/clipped_low", "grpo_s/clipped_high"]),
    "gtpo": Case(**COMPARING, oracles=[(gtpo, {})]),
    "js_to_start": Case(
        needed={"beta": 0.05},
        lively={"beta": 1.0},
        wrong={"beta": [0.0]},
        weights=[(js_to_start, {}), (partial(js_to_start, beta=2.0), {"beta": 2.0})],
    ),
    "kl": Case(  # its oracle is TRL's own penalty: tests/trainer/test_kl.py
        neutral=[of_method("kl", coef=0.0)],
        lively=of_method("kl", coef=1.0),
        wrong={"coef": [-0.1, 1.1]},
        even=True,
    ),
    "kl_cov": Case(
        neutral=[of_method("kl_cov", fraction=0.0), of_method("kl_cov", coef=0.0)],
        lively=of_method("kl_cov", fraction=0.2),
        scored=4,
        marks=["kl_cov/held"],
    ),
    "opo": Case(oracles=[(opo, {})]),
    "position": Case(neutral=[of_method("position", gamma=0.0)], oracles=[(position, {})]),
    "ppl": Case(
        **COMPARING,
        neutral=[of_method("ppl", alpha=0.0)],
        lively=of_method("ppl", alpha=0.3),
        oracles=[(ppl, {})],
    ),
    "unlikelihood": Case(
        **COMPARING,
        neutral=[of_method("unlikelihood", beta=0.0)],
        lively=of_method("unlikelihood", beta=1.0),
        oracles=[(unlikelihood, {})],
    ),
    "w_reinforce": Case(
        wrong={"positive": [True], "correct_threshold": ["0", None]},
        oracles=[(w_reinforce, {})],
    ),
    "psr": Case(gathered_bytes=(1, 1)),
    "nsr": Case(gathered_bytes=(1, 1)),
}


def threshold(name, value):
    """The setting of what counts as correct, for a method that asks."""
    return {"correct_threshold": value} if name in SHAPERS and "correct_threshold" in SHAPERS[name].settings() else {}
