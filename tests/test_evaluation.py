"""pass@k against brute force."""

from itertools import combinations
from math import comb, isnan, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.evaluation import mean_and_interval, pass_at_k


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_counts_the_subsets_with_a_right_sample(sizes):
    n, correct, k = sizes
    samples = [i < correct for i in range(n)]
    hits = sum(any(subset) for subset in combinations(samples, k))
    assert pass_at_k(n, correct, k) == pytest.approx(hits / comb(n, k))


@pytest.mark.parametrize("sizes", [(4, 2, 0), (4, 2, 5), (4, 5, 1), (4, -1, 1)])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match=r"pass@k needs 1 <= k <= num_samples"):
        pass_at_k(*sizes)


def test_interval_by_hand():
    # 0, 0, 1, 1: mean 1/2, standard deviation sqrt(1/3), half width 1.96 * sqrt(1/3) / 2
    mean, half_width = mean_and_interval([0, 0, 1, 1])
    assert (mean, half_width) == (0.5, pytest.approx(1.96 * sqrt(1 / 3) / 2))
    assert isnan(mean_and_interval([1.0])[1])
