"""Draws that depend on the seed, the step and the row, and on nothing else."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods.batches import SEEDS

from steer_trl.support.randomness import draw_uniform


@given(SEEDS, st.integers(0, 10**6), st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.integers(1, 20))
def test_draws_do_not_depend_on_the_batch(seed, step, rows, width):
    draws = draw_uniform(seed, step, torch.tensor(rows), width + 7)
    assert torch.equal(draws[:, :width], draw_uniform(seed, step, torch.tensor(rows), width))
    assert torch.equal(draws[-1:], draw_uniform(seed, step, torch.tensor(rows[-1:]), width + 7))


def test_each_seed_step_and_row_has_its_own_draw():
    draws = [draw_uniform(seed, step, torch.arange(4), 8) for seed in range(3) for step in range(3)]
    assert len({tuple(row) for several in draws for row in several.tolist()}) == 3 * 3 * 4


def test_draws_are_uniform():
    draws = draw_uniform(0, 1, torch.arange(200), 500)
    assert draws.dtype == torch.float32 and draws.min() >= 0 and draws.max() < 1
    assert (draws.flatten().mul(20).long().bincount(minlength=20) - 5000).abs().max() < 5 * math.sqrt(5000)
