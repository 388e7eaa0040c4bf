"""The words on a run's entropy: held or not, how far away, and in which direction it moves."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steer_trl import SteerGRPOConfig
from steer_trl.monitoring.release import find_release
from steer_trl.options.stare_variants import NAMES
from steer_trl.report.entropy import describe_entropy
from steer_trl.report.read import Run
from steer_trl.report.weights import describe_weights
from steer_trl.support.redact import select_public

HELD = {"hold_entropy": 0.65, "hold_entropy_unit": "initial"}
STARE = {"stare_variant": "C2", "stare_gate": "none", "stare_amplify": 1.25, "stare_attenuate": 0.8}


def course(values, target=None, reference=None, start=None):
    curves = {"rollout_entropy": dict(enumerate(values, 1))}
    for key, value in (("target", target), ("reference", reference)):
        if isinstance(value, list):
            curves[f"hold_entropy/{key}"] = dict(enumerate(value, 1))
        elif value is not None:
            curves[f"hold_entropy/{key}"] = {len(values): value}
    if start is not None:
        curves["rollout_entropy/start"] = {1: start}
    return describe_entropy(Run("run", None, curves=curves))


def line(first, last, steps=40):
    return [first + (last - first) * step / (steps - 1) for step in range(steps)]


@pytest.mark.parametrize(
    ("values", "is_held", "words"),
    [
        ([*line(1, 0.6), *[0.6] * 40], True, ["held at 0.6, target 0.6 (+0%)"]),
        ([*line(1, 0.6), *[0.6] * 80, *line(0.6, 0.5)], False, ["below its target 0.6", "falling"]),
        ([*line(1, 0.6), *[0.6] * 80, *line(0.68, 0.61)], True, ["held"]),
        ([*[0.6] * 40, *[0.4] * 40], False, ["33% below", "target 0.6"]),
        (line(1, 0.9), False, ["above its target 0.6"]),
        (line(0.6, 1.8), False, ["above its target 0.6", "rising"]),
    ],
    ids=["flat", "leaving its band", "returning", "lost", "not there yet", "escaping"],
)
def test_held_needs_the_last_quarter_near_the_target(values, is_held, words):
    found = course(values, target=0.6)
    assert found["is_held"] == is_held and all(word in found["phrase"] for word in words)
    assert is_held or "held" not in found["phrase"]


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=200), st.floats(0.01, 10))
def test_an_entropy_beyond_a_tenth_is_never_called_held(values, target):
    quarter = values[-max(1, len(values) // 4) :]
    distance = abs(math.fsum(quarter) / len(quarter) / target - 1)
    assert distance <= 0.1 + 1e-9 or not course(values, target)["is_held"]


def test_a_level_that_was_never_known_is_stated():
    curves = {"rollout_entropy": {1: 0.5, 2: 0.4}}
    held = describe_entropy(Run("run", None, {"settings": HELD}, curves=curves))
    free = describe_entropy(Run("run", None, {"settings": {}}, curves=curves))
    assert "not held" in held["phrase"] and "held" not in free["phrase"]


def test_a_path_to_the_target_is_not_held():
    assert "on its way to its target 0.6" in course([0.3] * 40, target=0.6, reference=0.31)["phrase"]


FALLING_TARGET = [0.6] * 60 + line(0.6, 0.28)


@pytest.mark.parametrize(
    ("values", "is_held", "words"),
    [
        ([*line(1, 0.6), *[0.6] * 20, *line(0.6, 0.28)], True, ["held at 0.6, target 0.6 (+0%)", "let go, 0.3"]),
        ([*line(1, 0.6), *[0.6] * 20, *line(0.6, 0.02)], True, ["held at 0.6", "let go, 0.0869"]),
        ([*line(1, 0.3, 60), *line(0.3, 0.28)], False, ["at step 61", "below its target 0.6, falling"]),
    ],
    ids=["followed the target", "fell below the target", "was never held"],
)
def test_held_describes_the_part_before_the_release(values, is_held, words):
    found = course(values, target=FALLING_TARGET)
    assert (found["is_held"], found["target"]) == (is_held, 0.6)
    assert all(word in found["phrase"] for word in words) and "target 0.28" in found["phrase"]


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (FALLING_TARGET, (0.6, 61, 0.28)),
        ([value for value in FALLING_TARGET for _ in range(4)], (0.6, 244, 0.28)),  # a rollout lasts four steps
        ([*[0.8] * 10, *FALLING_TARGET], (0.6, 71, 0.28)),  # resumed with a lower target before
        ([0.6, 0.5, 0.4], (0.6, 1, 0.4)),  # falling from the first rollout
        ([0.6] * 40, None),
        ([0.6] * 40 + [0.4] * 40, None),  # resumed with a lower target
        ([*line(0.3, 0.6)], None),
        ([], None),
    ],
)
def test_a_release_is_a_target_that_falls_to_the_end(targets, expected):
    assert find_release(list(enumerate(targets, 1))) == expected


def test_a_free_run_states_its_change_and_direction():
    assert course(line(0.5, 0.25, 400))["phrase"] == "0.5 → 0.253, -49%, falling"
    assert course([0.5] * 40, start=0.4)["phrase"] == "0.4 → 0.5, +25%"
    assert describe_entropy(Run("run", None, curves={"reward": {1: 0.0}})) is None


@pytest.mark.parametrize(
    ("methods", "settings", "expected"),
    [
        (["stare"], STARE, ["STARE C2, W 1.25, M 0.8, no gate"]),
        (
            ["stare"],
            {"stare_variant": ["O1", "amplify_low_negative"], "stare_amplify": 1.1, "stare_attenuate": 0.9}
            | {"stare_gate": "batch", "stare_target_entropy": 0.3, "stare_target_entropy_unit": "nats"},
            ["STARE O1 + amplify_low_negative, W 1.1, batch gate below 0.3 nats"],
        ),
        (
            ["stare"],
            STARE | HELD,
            ["STARE C2, no gate", "its strength moves to hold the entropy at 0.65 of its start"],
        ),
        (
            ["f_grpo", "psr"],
            {"shaping_options": {"f_grpo": {"gamma": 1.5}}, "steer_form": "x"},
            ["f_grpo (gamma 1.5)", "psr"],
        ),
        (
            [],
            {"dynamic_sampling": "resample"},
            ["plain GRPO: every token of a completion has the same weight", "dynamic sampling"],
        ),
    ],
    ids=["constant", "gated", "held", "others", "none"],
)
def test_the_weight_is_named(methods, settings, expected):
    assert describe_weights(methods, settings) == expected


@pytest.mark.parametrize("variant", NAMES)
def test_the_phrase_names_each_factor_that_the_variant_uses(variant, tmp_path):
    def config(**factor):
        settings = {"advantage_shaping": "stare", "stare_variant": variant, "use_cpu": True, "bf16": False}
        return SteerGRPOConfig(str(tmp_path), **settings, **factor)

    def is_used(**factor):
        """Whether the method's own check accepts a value of the factor that is not the default."""
        try:
            return bool(config(**factor))
        except ValueError:
            return False

    args = config()
    (phrase,) = describe_weights(args.shaping_names, select_public(vars(args)))
    assert (f", W {args.stare_amplify}" in phrase) == is_used(stare_amplify=1.2)
    assert (f", M {args.stare_attenuate}" in phrase) == is_used(stare_attenuate=0.8)
    assert f", {args.stare_gate} gate below {args.stare_target_entropy} nats" in phrase


def test_a_setting_that_was_not_recorded_is_not_stated():
    """Its default today may not be the one of that run."""
    assert describe_weights(["stare"], {}) == ["STARE"]
    assert describe_weights(["stare"], {"stare_variant": "C2"}) == ["STARE C2"]
