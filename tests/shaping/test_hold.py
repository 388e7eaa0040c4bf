"""`hold_entropy` and the methods whose strength it moves."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shaping.batches import SEEDS, config, random_batch, weights

from steer_trl.shaping import SHAPERS, make_shapers
from steer_trl.validation import listed

ABLE = {"repo_r": {}, "entropy_change": {}, "stare": {"stare_gate": "none", "stare_variant": "C2"}}


def held(name, **settings):
    shapers = make_shapers(config(name, hold_entropy=0.8, **ABLE[name], **settings))
    return shapers[name], shapers["hold_entropy"]


def test_these_methods_have_a_strength():
    assert {name for name, method in SHAPERS.items() if method.strengths is not None} == set(ABLE)


@pytest.mark.parametrize("name", ABLE)
class TestEachMethod:
    def test_it_waits_for_the_first_rollout_and_changes_nothing(self, name):
        shaper, hold = held(name)
        assert shaper.strength == 0 and not shaper.active and hold.metrics() == {}

    def test_the_strength_answers_the_entropy(self, name):
        shaper, hold = held(name)
        hold.on_rollout(0.5)  # the target is 0.4
        assert hold.metrics()["hold_entropy/target"] == pytest.approx(0.4)
        assert hold.metrics()["hold_entropy/initial_entropy"] == 0.5
        assert hold.metrics()["hold_entropy/error"] == pytest.approx(0.25)
        assert shaper.strength == 0  # the path to the target starts here
        hold.on_rollout(0.2)
        assert shaper.strength > 0 and shaper.active
        assert hold.metrics()["hold_entropy/strength"] == shaper.strength

    def test_the_more_strength_the_more_a_surprising_right_token_counts(self, name):
        shaper, _ = held(name)
        tokens = random_batch(5)
        valid = tokens.mask.bool() & tokens.logps.isfinite()
        surprise = torch.where(valid, -tokens.logps * tokens.advantages.sign(), 0.0)
        pulls = []
        for strength in (0.0, 0.3, 0.6, 1.0):
            shaper.strength = strength
            pulls.append((weights(shaper, tokens) * surprise).sum().item())
        assert pulls == sorted(pulls) and len(set(pulls)) == 4

    def test_in_nats_there_is_no_waiting(self, name):
        _, hold = held(name, hold_entropy_unit="nats")
        hold.on_rollout(0.5)
        assert hold.metrics()["hold_entropy/target"] == 0.8 and "hold_entropy/initial_entropy" not in hold.metrics()

    def test_state_round_trip(self, name):
        (one, hold), (other, twin) = held(name), held(name)
        for entropy in (0.5, 0.3, 0.2):
            hold.on_rollout(entropy)
        twin.load_state_dict(json.loads(json.dumps(hold.state_dict(), allow_nan=False)))
        assert other.strength == one.strength != 0
        hold.on_rollout(0.45)
        twin.on_rollout(0.45)
        assert (other.strength, twin.state_dict()) == (one.strength, hold.state_dict())


def test_a_target_out_of_reach_is_counted():
    """The alarm that reads the count is provoked by a run in `tests/trainer/test_alarms.py`."""
    shaper, hold = held("repo_r")
    hold.on_rollout(0.5)
    for _ in range(60):
        hold.on_rollout(0.001)
    assert shaper.strength == 1.0 and hold.metrics()["hold_entropy/out_of_reach"] > 50


@given(st.floats(-1, 1), SEEDS)
def test_repo_r_is_the_papers_formula_between_its_bounds(zeta, seed):
    tokens = random_batch(seed)
    found = make_shapers(config("repo_r", repo_r_zeta=zeta))["repo_r"].weights(tokens, None)
    advantages = tokens.advantages.expand_as(tokens.logps)
    for i, row in enumerate(tokens.logps.tolist()):
        for t, logp in enumerate(row):
            advantage = advantages[i, t].item()
            if not math.isfinite(logp):
                expected = 1.0
            else:
                factor = 1 - zeta * logp if advantage > 0 else 1 + zeta * logp if advantage < 0 else 1.0
                expected = min(max(factor, 0.0), 3.0)
            assert found[i, t].item() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert torch.isfinite(found).all()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"advantage_shaping": "steer"}, "of those in .*'steer'.* none can be moved"),
        ({"advantage_shaping": "none"}, "of those in .*'none'.* none can be moved"),
        (
            {"advantage_shaping": ["repo_r", "stare"], "stare_gate": "none"},
            "moves the strength of one method.* 2 can be",
        ),
        ({"advantage_shaping": "stare"}, "the gate would switch off"),
        ({"advantage_shaping": "stare", "stare_gate": "none", "stare_amplify": 1.2}, "which sets W and M itself"),
        ({"advantage_shaping": "repo_r", "repo_r_zeta": 0.1}, "the regulator sets it"),
        ({"advantage_shaping": "repo_r", "hold_entropy": -1.0}, r"hold_entropy must be in \(0, inf\)"),
        ({"hold_entropy": None, "hold_entropy_unit": "nats"}, "must be unset without hold_entropy"),
    ],
)
def test_what_cannot_work_is_refused(settings, text):
    settings = dict(settings)
    with pytest.raises(ValueError, match=text):
        config(*listed(settings.pop("advantage_shaping", "repo_r")), **{"hold_entropy": 0.8} | settings)
