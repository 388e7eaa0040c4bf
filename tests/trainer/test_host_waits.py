"""How often this package waits for the device in a step: operations for which CUDA would have to be waited for."""

import pytest

from benchmarks.waits import CASES, STEPS, count_waits

MOST = {"none, without padding": 10, "STARE's C2, constant weight": 10, "STARE's C2, dynamic sampling": 15}
"""With pass@k of each rollout, and a fourth of what the first rollout of a run measures once."""


@pytest.mark.parametrize("case", MOST)
def test_few_operations_wait_for_the_device(case):
    waits = count_waits(CASES[case])
    assert 0 < waits.ours.total() / STEPS <= MOST[case], waits.ours
