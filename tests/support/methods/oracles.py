"""What each method makes of the scored completions of a group, in Python's float64."""

import math
from typing import NamedTuple

import torch


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


def exact_change(batch):
    """The exact change of each trained token of a batch, by its place."""
    changes = {}
    for i, t in batch.mask.bool().nonzero().tolist():
        a, phi = batch.advantages[i, 0].item(), batch.sensitivities[i, t].item()
        r = math.exp(batch.logps[i, t].item() - batch.old_logps[i, t].item())
        is_clipped = r > 1 + batch.epsilon_high if a > 0 else a < 0 and r < 1 - batch.epsilon_low
        changes[i, t] = 0.0 if is_clipped else -r * a * phi
    return changes


def entropy_change(batch, strength=0.5, quantile=0.9):
    changes = exact_change(batch)
    sizes = sorted(abs(x) for x in changes.values() if x)
    scale = sizes[math.floor(quantile * (len(sizes) - 1))] if sizes else 1.0
    return {place: 1 + strength * math.tanh(x / scale) for place, x in changes.items()}


def steer_exact(batch, lambda_min=0.8, quantile=1.0):
    changes = exact_change(batch)
    sizes = sorted(abs(x) for x in changes.values() if x)
    scale = sizes[math.floor(quantile * (len(sizes) - 1))] if sizes else 1.0
    return {place: lambda_min ** min(abs(x) / scale, 1.0) for place, x in changes.items()}


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
