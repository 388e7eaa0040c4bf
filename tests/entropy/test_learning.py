"""The share of a run after which a share of its learning is done."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.entropy.learning import find_run_share

RATES = st.lists(st.floats(0, 10), min_size=1, max_size=60)


@given(st.floats(0, 10), st.integers(1, 100), st.floats(0, 1))
def test_a_constant_rate_makes_both_shares_equal(rate, steps, share):
    assert find_run_share([rate] * steps, share) == share
    assert find_run_share([], share) == share


@given(RATES, st.floats(0, 1))
def test_the_learning_up_to_that_share_is_the_one_asked_for(rates, share):
    if not sum(rates) or share in (0, 1):
        assert find_run_share(rates, share) == share
        return
    steps = find_run_share(rates, share) * len(rates)
    whole = math.floor(steps)
    done = sum(rates[:whole]) + (steps - whole) * (rates[whole] if whole < len(rates) else 0.0)
    assert done == pytest.approx(share * sum(rates), rel=1e-6, abs=1e-6)


@given(RATES, st.floats(0, 1), st.floats(0, 1))
def test_more_learning_never_comes_earlier(rates, one, other):
    low, high = sorted((one, other))
    assert find_run_share(rates, low) <= find_run_share(rates, high) + 1e-12


@pytest.mark.parametrize("share", [0.1, 0.6, 0.9])
def test_a_linear_schedule_has_its_closed_form(share):
    steps = 10_000
    rates = [1 - step / steps for step in range(steps)]
    assert find_run_share(rates, share) == pytest.approx(1 - math.sqrt(1 - share), abs=1e-3)
