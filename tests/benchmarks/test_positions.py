"""How many positions the model computes for each token, counted by `benchmarks/padding.py` from the lengths alone."""

import pytest

from benchmarks.padding import GROUP, count_positions, draw_lengths

SHORT, CHAT, LONG = (8, "short"), (4, "chat"), (1, "4:1")


@pytest.mark.parametrize("case", [SHORT, CHAT, LONG], ids=str)
@pytest.mark.parametrize(("ranks", "most"), [(1, 1.02), (2, 1.05), (8, 1.15)])
def test_prompts_are_computed_once_and_completions_without_padding(case, ranks, most):
    """64 completions of a step on each rank, in micro-batches of 8."""
    padded, trimmed, in_order, ours = count_positions(64, ranks, 8, *case)
    assert padded >= trimmed > in_order > most >= ours >= 1


@pytest.mark.parametrize("case", [SHORT, CHAT, LONG], ids=str)
@pytest.mark.parametrize("batch", [1, 4, 16])
def test_no_order_computes_more_than_all_tokens(case, batch):
    *_, in_order, ours = count_positions(64, 1, batch, *case)
    most = 0.0
    for seed in range(10):
        prompts, completions = draw_lengths(64, *case, seed)
        ideal = sum(prompts[::GROUP]) + sum(completions)
        most += (sum(prompts) + sum(completions)) / ideal / 10
    assert ours <= in_order <= most * (1 + 1e-9)
