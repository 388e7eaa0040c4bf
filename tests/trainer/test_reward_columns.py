"""A reward function that TRL cannot call with the data set's columns is refused before anything is loaded."""

import functools
import random

import pytest
from datasets import Dataset
from support.runs import count_reward

from steer_trl import SteerGRPOTrainer
from steer_trl.rewards import MathReward
from steer_trl.trainer.checks.columns import OF_TRL, compare_arguments

ROWS = Dataset.from_dict({"prompt": ["1+1=", "2+2="] * 4, "answer": ["2", "4"] * 4})


def by_level(completions, level, **_):
    return [1.0] * len(completions)


def narrow(completions):
    return [1.0] * len(completions)


def wants_prompt(completions, prompt, **_):
    return [1.0] * len(completions)


async def waits_for_level(completions, level, **_):
    return [1.0] * len(completions)


class ByLevel:
    def __call__(self, completions, *, level, **_):
        return [1.0] * len(completions)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (MathReward(), ["solution", "prompt", "answer"]),
        (by_level, ["by_level", "level", "answer"]),
        (ByLevel(), ["ByLevel", "level"]),
        (waits_for_level, ["waits_for_level", "level"]),
        (functools.partial(by_level, extra=1), ["level"]),
        (narrow, ["narrow", "prompts", "answer"]),
        (wants_prompt, ["wants_prompt", "prompts"]),
        (ByLevel, ["ByLevel"]),
    ],
)
def test_a_function_that_cannot_be_called(make_trainer, function, named):
    with pytest.raises(ValueError) as refused:
        make_trainer(
            SteerGRPOTrainer, trainer_arguments={"train_dataset": ROWS, "reward_funcs": [count_reward, function]}
        )
    assert all(repr(name) in str(refused.value) or name in str(refused.value) for name in named)


def test_a_column_of_one_evaluation_set_is_missing(make_trainer):
    sets = {"eval_dataset": {"easy": ROWS.add_column("level", [1] * 8), "hard": ROWS}}
    given = {"train_dataset": ROWS.add_column("level", [1] * 8), "reward_funcs": by_level}
    with pytest.raises(ValueError, match=r"level.*hard"):
        make_trainer(SteerGRPOTrainer, trainer_arguments=given | sets)


def test_a_column_that_is_taken_out(make_trainer):
    given = {"train_dataset": ROWS.add_column("level", [1] * 8), "reward_funcs": by_level}
    with pytest.raises(ValueError, match=r"level.*remove_unused_columns"):
        make_trainer(SteerGRPOTrainer, remove_unused_columns=True, trainer_arguments=given)


def optional(completions, level=None, **_):
    return [float(len(text) % 3) for text in completions]


def takes_all(prompts, completions, completion_ids, answer, trainer_state, log_extra, log_metric):
    return [float(len(text) % 3) for text in completions]


def added_by_a_wrapper(function):
    @functools.wraps(function)
    def call(answer, **columns):
        return function(level=answer, **columns)

    return call


class AddsLevel(SteerGRPOTrainer):
    def _calculate_rewards(self, inputs, *args, **kwargs):
        return super()._calculate_rewards([row | {"level": 1} for row in inputs], *args, **kwargs)


def with_level(rows):
    return rows | {"level": [1] * len(rows["prompt"])}


@pytest.mark.parametrize(
    ("kind", "function", "rows"),
    [
        (SteerGRPOTrainer, optional, ROWS),
        (SteerGRPOTrainer, takes_all, ROWS),
        (SteerGRPOTrainer, added_by_a_wrapper(by_level), ROWS),
        (SteerGRPOTrainer, by_level, ROWS.with_transform(with_level)),
        (AddsLevel, by_level, ROWS),
    ],
    ids=["default", "every argument", "wrapper", "transform", "subclass"],
)
def test_a_function_that_can_be_called_trains(make_trainer, kind, function, rows):
    given = {"train_dataset": rows, "reward_funcs": function}
    make_trainer(kind, max_steps=1, alarms=False, trainer_arguments=given).train()


def test_the_comparison_agrees_with_a_call():
    """For random signatures, a call with TRL's arguments and random columns fails where the comparison says so."""
    draw = random.Random(0)
    names = [*OF_TRL, "answer", "level", "source"]
    seen = set()
    for _ in range(300):
        chosen = draw.sample(names, draw.randrange(len(names)))
        plain = draw.randrange(len(chosen) + 1)
        parts = [*chosen[:plain], *(f"{name}=None" for name in chosen[plain:])]
        if draw.random() < 0.2:
            parts = ["*", *parts] if parts else parts
        if draw.random() < 0.6:
            parts.append("**columns")
        scope = {}
        exec(f"def reward({', '.join(parts)}): return []", scope)
        passed = OF_TRL | set(draw.sample(["answer", "level", "source"], draw.randrange(4)))
        required, refused = compare_arguments(scope["reward"], passed)
        try:
            scope["reward"](**dict.fromkeys(passed))
            works = True
        except TypeError:
            works = False
        assert works == (not required and not refused), parts
        seen.add(works)
    assert seen == {True, False}
