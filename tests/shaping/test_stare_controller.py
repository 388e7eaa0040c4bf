"""STARE's gate and schedule, beyond the released sequences of `test_vectors.py`."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steer_trl import TargetEntropyController


def test_equality_closes_the_gate_and_leaves_the_schedule():
    controller = TargetEntropyController(0.3, 1.1, 0.9, adaptive=True)
    controller.update(0.3)
    assert (controller.gate, controller.amplify, controller.attenuate) == (False, 1.1, 0.9)
    controller.update(math.nextafter(0.3, 0))
    assert controller.gate and controller.amplify == pytest.approx(1.11)


@pytest.mark.parametrize("entropy", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("before", [0.1, 0.5])
def test_a_non_finite_entropy_changes_nothing(entropy, before):
    controller = TargetEntropyController(0.3, 1.1, 0.9, adaptive=True)
    controller.update(before)
    state = controller.state_dict()
    controller.update(entropy)
    assert controller.state_dict() == state


@given(st.lists(st.floats(0, 2), max_size=80), st.floats(0, 0.4))
def test_the_schedule_stays_within_its_bounds(entropies, step):
    controller = TargetEntropyController(0.5, 1.2, 0.8, adaptive=True, step=step, amplify_max=1.4, attenuate_min=0.6)
    for entropy in entropies:
        controller.update(entropy)
        assert 1 <= controller.amplify <= 1.4 and 0.6 <= controller.attenuate <= 1
        assert controller.gate == (entropy < 0.5)


def test_the_factors_of_a_run_are_not_restored():
    """A run resumed with other settings must take them."""
    fixed = TargetEntropyController(0.3, 1.3, 0.8)
    assert fixed.state_dict() == {"gate": True}
    moving = TargetEntropyController(0.3, 1.1, 0.9, adaptive=True)
    moving.update(0.5)
    fixed.load_state_dict(moving.state_dict())
    assert (fixed.gate, fixed.amplify, fixed.attenuate) == (False, 1.3, 0.8)


STATE = {"gate": True, "amplify": 1.2, "attenuate": 0.8}


@pytest.mark.parametrize(
    ("state", "named"),
    [
        (STATE | {"gate": 1}, "gate must be .*, got 1$"),
        (STATE | {"amplify": -5}, r"amplify must be .* \[1, inf\), got -5$"),
        (STATE | {"amplify": "1.1"}, "amplify must be .*, got '1.1'$"),
        (STATE | {"attenuate": math.nan}, r"attenuate must be .* \(0, 1\], got nan$"),
        ([], "'gate'"),
    ],
    ids=str,
)
def test_an_invalid_state_is_refused_and_changes_nothing(state, named):
    controller = TargetEntropyController(0.3, 1.1, 0.9, adaptive=True)
    before = dict(vars(controller))
    with pytest.raises(ValueError, match=named):
        controller.load_state_dict(state)
    assert vars(controller) == before


def test_a_resumed_schedule_obeys_its_new_settings():
    controller = TargetEntropyController(0.3, 1.1, 0.9, adaptive=True)
    controller.load_state_dict({"gate": False})
    assert controller.state_dict() == {"gate": False, "amplify": 1.1, "attenuate": 0.9}
    controller = TargetEntropyController(0.3, 1.1, 0.95, adaptive=True, amplify_max=1.15, attenuate_min=0.9)
    controller.load_state_dict(STATE)
    assert (controller.amplify, controller.attenuate) == (1.15, 0.9)
