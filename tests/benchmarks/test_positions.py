"""How many positions the model computes for each token, counted by `benchmarks/padding.py` from the lengths alone."""

import pytest

from benchmarks.padding import count_positions

SHORT, CHAT = (8, "short"), (4, "chat")


@pytest.mark.parametrize("case", [SHORT, CHAT], ids=str)
@pytest.mark.parametrize(("ranks", "most"), [(1, 1.15), (2, 1.25)])
def test_a_tenth_of_the_positions_is_padding(case, ranks, most):
    """64 completions of a step on each rank, in micro-batches of 8."""
    padded, trimmed, ours = count_positions(64, ranks, 8, *case)
    assert padded > trimmed > 2 > most >= ours >= 1
