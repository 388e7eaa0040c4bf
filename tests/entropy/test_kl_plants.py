"""`hold_entropy_by="kl"` on synthetic policies: the penalty pulls harder the farther a policy is from its start."""

import math
import random
from statistics import fmean

import pytest

from experiments.regulator import AUTHORITY, DRIFT, PLANTS
from steer_trl.functional import EntropyRegulator
from steer_trl.shaping import SHAPERS

ROLLOUTS, SETTLED = 400, 80
PER_ZETA = 3.1
"""The effect of a unit of beta over that of a unit of zeta, per nat of ln(H_0 / H): 5 (1 - tau) / ln(H_0 / H)."""


def hold_by_kl(level, drift=DRIFT, authority=AUTHORITY, noise=0.0, slow=0.0, seed=0):
    """Return the entropies of a policy that begins with an entropy of 1, and the strengths."""
    control = SHAPERS["kl"].control
    regulator = EntropyRegulator(level, control.max_strength, control.gain, release_start=1.0)
    rng, log_entropy, speed = random.Random(seed), 0.0, 0.0
    entropies, strengths = [], []
    for rollout in range(ROLLOUTS):
        strengths.append(regulator.update(math.exp(log_entropy + rng.gauss(0, noise))))
        entropies.append(math.exp(log_entropy))
        pull = authority * PER_ZETA * max(-log_entropy, 0.0) * strengths[-1]
        push = (drift(rollout) if callable(drift) else drift) + pull
        speed = slow * speed + (1 - slow) * push
        log_entropy += speed
    return entropies[SETTLED:], strengths[SETTLED:]


def can_be_held(level, drift=DRIFT, authority=AUTHORITY, **_):
    """Whether three quarters of the largest strength make up for the largest drift."""
    largest = max(-drift(rollout) for rollout in range(ROLLOUTS)) if callable(drift) else -drift
    return largest <= 0.75 * authority * PER_ZETA * math.log(1 / level)


@pytest.mark.parametrize("level", [0.5, 0.65, 0.8])
def test_policies_are_held_where_the_bound_suffices(level):
    held = [plant for plant in PLANTS if can_be_held(level, **plant)]
    assert len(held) >= 7
    for plant in held:
        entropies, strengths = hold_by_kl(level, **plant)
        distances = [abs(entropy / level - 1) for entropy in entropies]
        assert fmean(distances) <= 0.05, plant
        assert sum(distance <= 0.1 for distance in distances) >= 0.9 * len(distances), plant
        assert fmean(strengths) < 0.75


def test_an_entropy_near_the_start_is_out_of_its_reach():
    entropies, strengths = hold_by_kl(0.97)
    assert fmean(strengths) > 0.9 and fmean(entropies) < 0.95 * 0.97
