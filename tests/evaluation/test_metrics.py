"""pass@k and maj@k against brute force, and the interval of a mean."""

from itertools import combinations
from math import comb, isnan, sqrt
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.evaluation import majority_vote, mean_and_interval, pass_at_k
from steer_trl.evaluation.metrics import values_of_counts


class TestMetrics:
    @given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=9))
    def test_cover_is_the_share_solved_that_often(self, problems):
        values = values_of_counts(5, [sum(samples) for samples in problems])
        for tau, least in ((0.25, 2), (0.5, 3), (0.75, 4)):  # of five samples
            expected = mean(len([one for one in samples if one]) >= least for samples in problems)
            assert mean_and_interval(values[f"cover@{tau}"])[0] == pytest.approx(expected)

    def test_cover_includes_problems_at_exactly_tau(self):
        values = values_of_counts(4, range(5))
        assert [values[f"cover@{tau}"] for tau in (0.25, 0.5, 0.75)] == [[0] * n + [1] * (5 - n) for n in (1, 2, 3)]
        assert not any(metric.startswith("cover") for metric in values_of_counts(1, [0, 1]))

    @given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
    def test_pass_at_k_counts_subsets_with_success(self, sizes):
        n, correct, k = sizes
        samples = [i < correct for i in range(n)]
        hits = sum(any(subset) for subset in combinations(samples, k))
        assert pass_at_k(n, correct, k) == pytest.approx(hits / comb(n, k))

    @pytest.mark.parametrize("sizes", [(4, 2, 0), (4, 2, 5), (4, 5, 1), (4, -1, 1)])
    def test_impossible_sizes_are_refused(self, sizes):
        with pytest.raises(ValueError, match=r"pass@k needs 1 <= k <= num_samples"):
            pass_at_k(*sizes)

    @given(st.lists(st.sampled_from(["right", "a", "b", None]), min_size=1, max_size=7))
    def test_majority_vote_breaks_ties_at_random(self, votes):
        counts = {vote: votes.count(vote) for vote in votes if vote is not None}
        winners = [vote for vote, count in counts.items() if count == max(counts.values())]
        expected = winners.count("right") / len(winners) if winners else 0.0
        assert majority_vote(votes, [vote == "right" for vote in votes]) == pytest.approx(expected)

    def test_right_answers_are_one_candidate(self):
        assert majority_vote(["1/2", "0.5", "3", "3", "4"], [True, True, False, False, False]) == 0.5

    def test_interval_by_hand(self):
        # 0, 0, 1, 1: mean 1/2, standard deviation sqrt(1/3), half width 1.96 * sqrt(1/3) / 2
        mean, half_width = mean_and_interval([0, 0, 1, 1])
        assert (mean, half_width) == (0.5, pytest.approx(1.96 * sqrt(1 / 3) / 2))
        assert isnan(mean_and_interval([1.0])[1])
