"""A group of equal rewards that are too large for float32 is reported, and one that has advantages of 0 is not."""

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.digits import written
from trl.trainer.utils import nanstd

from steer_trl import SteerGRPOTrainer
from steer_trl.trainer.checks.rounding import find_false_advantage

NAME = "steer_trl.trainer.checks.rounding"


def shifted(by, step=0.0):
    """Return rewards that are equal within groups if `step` is 0, and otherwise differ by it."""

    def reward(completions, **_):
        return [by + step * i for i, _ in enumerate(completions)]

    return reward


@pytest.mark.parametrize(
    ("reward", "settings", "is_reported"),
    [
        (shifted(12345.67), {}, True),
        (shifted(-1000.1), {"advantage_shaping": "stare"}, True),
        (shifted(12345.67), {"multi_objective_aggregation": "normalize_then_sum"}, True),
        (shifted(1000.0), {}, False),
        (shifted(12345.67), {"reward_weights": [1e-3]}, False),
        (shifted(12345.67), {"scale_rewards": False}, False),
        (shifted(12345.67, step=1.0), {}, False),
        (shifted(0.1), {}, False),
    ],
)
def test_equal_rewards_with_advantages_are_reported_once(make_trainer, caplog, reward, settings, is_reported):
    sizes = {"num_generations": 6, "per_device_train_batch_size": 6, "gradient_accumulation_steps": 2, "max_steps": 3}
    arguments = {"reward_funcs": reward, "rollout_func": written}
    trainer = make_trainer(
        SteerGRPOTrainer, trainer_arguments=arguments, **{"advantage_shaping": "none"} | sizes | settings
    )
    with caplog.at_level(logging.WARNING, NAME):
        trainer.train()
    assert len([record for record in caplog.records if record.name == NAME]) == is_reported


@given(value=st.floats(-1e5, 1e5, width=32), size=st.integers(2, 16), unscored=st.integers(0, 2))
def test_the_size_is_that_of_the_advantages_of_trl(value, size, unscored):
    rewards = torch.tensor([[value] * size + [torch.nan] * unscored])
    spread = nanstd(rewards, dim=1, keepdim=True)
    advantages = (rewards - rewards.nanmean(1, keepdim=True)) / (spread + 1e-4)
    assert find_false_advantage(rewards) == pytest.approx(
        advantages.nan_to_num().abs().max().item(), rel=0.5, abs=1e-3
    )
    assert find_false_advantage(rewards + torch.arange(size + unscored)) == 0
