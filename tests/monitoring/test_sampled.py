"""The difference between surprisal and entropy is 0 exactly if tokens are drawn from the policy that is scored."""

import math

import numpy as np
import pytest
import torch

from steer_trl.monitoring.sampled import estimate_gap, sum_gaps
from steer_trl.shaping.informative import is_informative

ALARM = 0.02
ERRORS = 5


def draw(rng, probabilities, completions, longest, end=0):
    """Draw completions from a Markov chain, and return each token's log-probability, its entropy, and the mask.

    `probabilities` `[V, V]` is the distribution of the next token after each token.
    """
    logs = np.log(probabilities)
    entropies = -(probabilities * logs).sum(1)
    tokens = np.zeros((completions, longest), dtype=int)
    state = rng.integers(1, len(probabilities), completions)
    logps, entropy, mask = (np.zeros((completions, longest)) for _ in range(3))
    alive = np.ones(completions, dtype=bool)
    cumulated = probabilities.cumsum(1)
    for t in range(longest):
        token = (cumulated[state] < rng.random((completions, 1))).sum(1).clip(max=len(probabilities) - 1)
        logps[:, t], entropy[:, t], mask[:, t] = logs[state, token], entropies[state], alive
        tokens[:, t] = token
        alive &= token != end
        state = token
    return tokens, *(torch.tensor(x) for x in (logps, entropy, mask))


def is_alarm(gap):
    return abs(gap.mean) > max(ALARM, ERRORS * gap.error)


def chain(rng, sharpness, size=24):
    logits = rng.normal(size=(size, size)) * sharpness
    logits[:, 0] -= 1.5
    weights = np.exp(logits)
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("sharpness", [0.3, 2.0, 6.0, 14.0])
def test_sound_samples_raise_no_alarm(sharpness):
    """200 samples of 8 to 2000 completions, down to policies that are nearly certain."""
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        policy = chain(rng, sharpness)
        completions = int(8 * 250 ** rng.random())
        _, *scores = draw(rng, policy, completions, 15)
        alarms += is_alarm(estimate_gap(*sum_gaps(*scores).tolist(), len(policy)))
    assert alarms == 0


def test_one_rare_token_that_is_missing_is_no_alarm():
    """A token of probability 1/100 is missing in every third sample of 100: the surprisal is below the entropy."""
    p = np.array([0.99, 0.01])
    entropy = -(p * np.log(p)).sum()
    for count in (0, 1, 2, 5, 8):
        logps = torch.tensor(np.log([[0.99] * (100 - count) + [0.01] * count]))
        gap = estimate_gap(*sum_gaps(logps, torch.full_like(logps, entropy), torch.ones_like(logps)).tolist(), 50_000)
        assert not is_alarm(gap)


def test_chosen_groups_are_not_a_fair_sample():
    """At five per cent correct and 15 tokens, groups with correct answers differ; all groups together do not."""
    rng = np.random.default_rng(0)
    policy = chain(rng, 1.0)
    _, logps, entropies, mask = draw(rng, policy, 64_000, 15)
    surprisal = -(logps * mask).sum(1)
    correct = (surprisal > surprisal.quantile(0.95)).double()  # the task asks for what the model seldom writes
    chosen = is_informative(correct, 4).repeat_interleave(4)
    everything = estimate_gap(*sum_gaps(logps, entropies, mask).tolist(), len(policy))
    selected = estimate_gap(*sum_gaps(logps[chosen], entropies[chosen], mask[chosen]).tolist(), len(policy))
    assert not is_alarm(everything) and abs(everything.mean) < 3 * everything.error
    assert is_alarm(selected)


def test_another_sampler_is_noticed():
    """Tokens of a sharper, a flatter and a moved policy, scored by the original."""
    rng = np.random.default_rng(0)
    policy = chain(rng, 1.0)
    for other in (policy**2, policy**0.5, policy * np.exp(rng.normal(size=policy.shape))):
        other = other / other.sum(1, keepdims=True)
        tokens, _, _, mask = draw(rng, other, 4000, 15)
        before = np.concatenate([tokens[:, :1], tokens[:, :-1]], axis=1)
        logps = torch.tensor(np.log(policy)[before, tokens])[:, 1:]
        entropies = torch.tensor(-(policy * np.log(policy)).sum(1)[before])[:, 1:]
        gap = estimate_gap(*sum_gaps(logps, entropies, mask[:, 1:]).tolist(), len(policy))
        assert abs(gap.mean) > ERRORS * gap.error


def test_the_error_is_that_of_uncorrelated_tokens():
    """About 0.003 nats for 64 x 8 completions of 500 tokens whose surprisal varies by 1.2 nats."""
    generator = torch.Generator().manual_seed(0)
    logps = -1 - 1.2 * torch.randn(512, 500, generator=generator)
    gap = estimate_gap(*sum_gaps(logps, torch.ones(512, 500), torch.ones(512, 500)).tolist(), 150_000)
    assert gap.error == pytest.approx(1.2 / math.sqrt(512 * 500), rel=0.02)


def test_without_tokens_there_is_no_difference():
    empty = torch.zeros(2, 3)
    assert estimate_gap(*sum_gaps(empty, empty, empty).tolist(), 10) is None
    logps = torch.tensor([[-1.0, math.nan, -math.inf]])
    gap = estimate_gap(*sum_gaps(logps, torch.ones(1, 3), torch.ones(1, 3)).tolist(), 10)
    assert gap.mean == 0
