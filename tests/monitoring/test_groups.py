"""pass@k of groups equals all subsets by brute force."""

import math
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.monitoring.groups import PASS_AT_K, measure_groups

VERDICTS = st.sampled_from([0.0, 1.0, math.nan])


@given(st.integers(2, 9).flatmap(lambda size: st.lists(st.lists(VERDICTS, min_size=size, max_size=size), max_size=5)))
def test_pass_at_k_of_a_group_counts_subsets_of_scored_completions(groups):
    size = len(groups[0]) if groups else 2
    found = measure_groups([verdict for group in groups for verdict in group], size)
    scored = [[verdict for verdict in group if verdict == verdict] for group in groups]
    for k, key in PASS_AT_K.items():
        shares = [fmean(max(subset) for subset in combinations(group, k)) for group in scored if len(group) >= k]
        assert (key in found) == bool(shares)
        assert not shares or found[key] == pytest.approx(fmean(shares))
