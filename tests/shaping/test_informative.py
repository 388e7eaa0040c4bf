"""Which groups teach something."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.shaping.informative import is_informative


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=1, max_size=5))
def test_a_group_is_informative_if_some_but_not_all_are_correct(groups):
    """0 < number of correct completions < G."""
    expected = [0 < sum(group) < 4 for group in groups]
    assert is_informative(torch.tensor(groups).flatten(), 4).tolist() == expected


def test_rounding_is_no_difference_and_a_thousandth_is():
    """The deviation of equal numbers in float32 need not be 0."""
    for value in (0.1, 1 / 3, 0.7, 1e5 + 0.1):
        assert not is_informative(torch.full((7,), value), 7).item()
    assert is_informative(torch.tensor([0.3, 0.3 + 1e-7, 0.5, 0.501]), 2).tolist() == [False, True]


def test_unscored_completions_are_left_out():
    groups = [[math.nan, math.nan], [math.nan, 1.0], [0.0, 0.0]]
    assert is_informative(torch.tensor(groups).flatten(), 2).tolist() == [False] * 3
    assert is_informative(torch.tensor([math.nan, 1.0, 0.0]), 3).tolist() == [True]
