"""Which tokens' entropy is held, against a choice by plain numbers."""

import math

import pytest
import torch
from hypothesis import given
from support.methods.batches import SEEDS, random_batch

from steer_trl.functional.held_tokens import HELD_TOKENS, held_tokens
from steer_trl.functional.order_statistics import this_process


@pytest.mark.parametrize("choice", HELD_TOKENS)
@given(SEEDS)
def test_the_tokens_are_those_of_the_definition(choice, seed):
    batch = random_batch(seed)
    advantages = batch.advantages.expand_as(batch.entropies)
    found = held_tokens(choice, batch.entropies, advantages, batch.mask, this_process)
    cells = [(i, t) for i in range(len(found)) for t in range(found.size(1))]
    valid = [c for c in cells if batch.mask[c] and math.isfinite(batch.entropies[c])]
    if choice == "positive_advantage":
        expected = [c for c in valid if advantages[c] > 0]
    elif choice == "top_entropy":
        ranked = sorted((batch.entropies[c].item() for c in valid), reverse=True)
        least = ranked[math.ceil(0.2 * len(ranked) - 1e-6) - 1] if ranked else 0.0
        expected = [c for c in valid if batch.entropies[c].item() >= least]
    else:
        expected = valid
    assert [c for c in cells if found[c]] == expected


def test_no_token_is_no_error():
    nothing = torch.zeros(2, 3)
    for choice in HELD_TOKENS:
        assert not held_tokens(choice, nothing, nothing + 1, nothing, this_process).any()
