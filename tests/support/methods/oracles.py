"""What the methods' oracles share, in Python's float64; each stands beside its method in `cases.py`."""

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


def trained(batch):
    """The places of the trained tokens."""
    return [tuple(place) for place in batch.mask.bool().nonzero().tolist()]


def exact_change(batch):
    """The exact change of each trained token of a batch, by its place."""
    changes = {}
    for i, t in trained(batch):
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


def steer_exact(batch, lambda_min=0.8):
    changes = exact_change(batch)
    scale = max(map(abs, changes.values()), default=0.0) or 1.0
    return {place: lambda_min ** (abs(x) / scale) for place, x in changes.items()}


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
