"""Which groups teach something."""

import math
from statistics import variance

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.functional.informative import has_variance, is_informative, pass_rate


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=1, max_size=5))
def test_as_in_the_paper(groups):
    """0 < number of correct completions < G."""
    expected = [0 < sum(group) < 4 for group in groups]
    assert is_informative(torch.tensor(groups).flatten(), 4).tolist() == expected


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7, 1e5 + 0.1])
def test_equal_floats_are_equal(value):
    """Their deviation in float32 need not be 0: a comparison with 0 would keep some of them."""
    assert not is_informative(torch.full((7,), value), 7).item()


def test_rounding_is_no_difference_and_a_thousandth_is():
    assert is_informative(torch.tensor([0.3, 0.3 + 1e-7, 0.5, 0.501]), 2).tolist() == [False, True]


def test_what_was_not_scored_is_left_out():
    groups = [[math.nan, math.nan], [math.nan, 1.0], [0.0, 0.0]]
    assert is_informative(torch.tensor(groups).flatten(), 2).tolist() == [False] * 3
    assert is_informative(torch.tensor([math.nan, 1.0, 0.0]), 3).tolist() == [True]


def kept_by_hand(groups, share):
    """The most different groups first, until they have the share of all variance."""
    variances = [variance(group) for group in groups]
    kept, sum_of_kept = [False] * len(groups), 0.0
    for i in sorted(range(len(groups)), key=lambda i: -variances[i]):
        if variances[i] > 0 and sum_of_kept < share * sum(variances) - 1e-9:
            kept[i], sum_of_kept = True, sum_of_kept + variances[i]
    return kept


FOURS = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=1, max_size=8)


@given(FOURS, st.sampled_from([0.3, 0.5, 0.9, 1.0]))
def test_the_fewest_groups_with_a_share_of_the_variance(groups, share):
    found = has_variance(torch.tensor(groups).flatten(), 4, share).tolist()
    assert found == kept_by_hand(groups, share)
    assert any(found) == any(0 < sum(group) < 4 for group in groups)  # one is left, if any differs


def test_the_whole_variance_is_every_informative_group_however_little_it_has():
    correctness = torch.tensor([0.0, 1e6, 0.0, 1e-3, 1.0, 1.0])
    assert has_variance(correctness, 2, 1.0).tolist() == is_informative(correctness, 2).tolist() == [True, True, False]


def test_completions_without_a_score_have_no_variance():
    groups = [[math.nan, math.nan, 0.0], [0.0, 1.0, math.nan], [0.0, 1.0, 1.0]]
    assert has_variance(torch.tensor(groups).flatten(), 3, 0.5).tolist() == [False, True, False]


def test_pass_rates_are_of_what_was_scored():
    rates = pass_rate(torch.tensor([1.0, -1.0, math.nan, 1.0, math.nan, math.nan]), 2, threshold=0.0)
    assert rates[:2].tolist() == [0.5, 1.0] and rates[2].isnan()
