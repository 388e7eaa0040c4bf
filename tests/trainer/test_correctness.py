"""One reward function and one threshold decide what is correct, for methods, dynamic sampling and the log."""

import pytest
import torch
from support.groups import Given, is_correct, number, numbered
from support.methods.cases import CASES
from support.runs import Watching

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.shaping import SHAPERS

READERS = [name for name, method in SHAPERS.items() if "correctness" in method.reads]
SIZES = {"gradient_accumulation_steps": 4, "max_steps": 1, "max_completion_length": 16, "shuffle_dataset": False}


def accuracy_reward(completions, **_):
    return is_correct(completions)


def format_reward(completions, **_):
    return [1.0] * len(completions)


def length_reward(completions, **_):
    """Differs within every group."""
    return [i / 8 for i, _ in enumerate(completions)]


def partial_reward(completions, **_):
    """One for an answer, a tenth for its form."""
    return [1.0 if right else 0.1 for right in is_correct(completions)]


OPEN_R1 = [accuracy_reward, format_reward, length_reward]


@pytest.fixture
def run(train):
    def train_on(rewards, rows=None, **fields):
        rows = numbered(48) if rows is None else rows
        arguments = {"rollout_func": Given(), "reward_funcs": rewards, "train_dataset": rows}
        return train(Watching, trainer_arguments=arguments, **SIZES | fields)

    return train_on


@pytest.mark.parametrize("name", READERS)
def test_a_method_asks_which_of_several_functions_decides(make_trainer, name):
    arguments = {"reward_funcs": OPEN_R1}
    fields = CASES[name].lively if name in CASES else {}
    with pytest.raises(ValueError, match="correct_reward='accuracy_reward'"):
        make_trainer(
            SteerGRPOTrainer, model="a/missing", trainer_arguments=arguments, advantage_shaping=name, **fields
        )


@pytest.mark.parametrize("name", READERS)
def test_a_constant_format_reward_changes_no_advantage(run, name):
    """With accuracy and a format that is always right, a method does the same as with accuracy alone."""
    fields = {"advantage_shaping": name, **(CASES[name].lively if name in CASES else {})}
    alone = run(accuracy_reward, **fields).written[0]["advantages"]
    both = run([accuracy_reward, format_reward], correct_reward="accuracy_reward", **fields).written[0]["advantages"]
    if name in ("unlikelihood", "gtpo", "grpo_s"):
        # These also read the size of the reward, which the format raises.
        assert torch.equal(alone != 0, both != 0)
    else:
        torch.testing.assert_close(alone, both)
    assert (both != 0).any()


def test_other_values_than_two_are_reported_with_their_share(run, caplog):
    run(partial_reward, advantage_shaping="f_grpo", max_steps=2)
    (text,) = [record.message for record in caplog.records if "correct_threshold" in record.message]
    assert "100 %" in text and "f_grpo" in text
    caplog.clear()
    run(partial_reward, advantage_shaping="f_grpo", correct_threshold=0.5)
    run(partial_reward, advantage_shaping="opo")
    assert "correct_threshold" not in caplog.text


def test_rewards_that_a_method_leaves_out_are_reported(run, caplog):
    run([accuracy_reward, length_reward], advantage_shaping="nsr", correct_reward="accuracy_reward")
    assert any("'length_reward'" in record.message for record in caplog.records)


def test_no_gradient_names_the_method_that_removed_the_advantages(train, caplog):
    def one_or_a_tenth(completions, **_):
        return [1.0 if "1" in text else 0.1 for text in completions]

    trainer = train(
        SteerGRPOTrainer, advantage_shaping="f_grpo", max_steps=12, trainer_arguments={"reward_funcs": one_or_a_tenth}
    )
    (alarm,) = [record.message for record in caplog.records if "ALARM no_gradient" in record.message]
    assert "f_grpo" in alarm
    assert {entry["rollout_advantage_left"] for entry in trainer.state.log_history if "loss" in entry} == {0.0}


class TestSeveralRewards:
    """Dynamic sampling with several functions and none named."""

    def test_the_sum_decides(self, run):
        trainer = run([accuracy_reward, format_reward], dynamic_sampling="resample")
        assert trainer.state.log_history[0]["dynamic_sampling/without_judge"] == 0
        named = run([accuracy_reward, format_reward], dynamic_sampling="resample", correct_reward="accuracy_reward")
        assert torch.equal(trainer.written[0]["completion_ids"], named.written[0]["completion_ids"])
        assert not trainer.state.log_history[0].keys() & {"dynamic_sampling/accuracy", "dynamic_sampling/all_correct"}

    def test_a_task_that_the_named_function_cannot_score_is_kept(self, run):
        """Each of two functions scores one task, and returns `None` for the other, as in TRL's documentation."""

        def is_first(prompt):
            return number(prompt) % 8 < 4

        def first_reward(prompts, completions, **_):
            right = is_correct(completions)
            return [one if is_first(prompt) else None for prompt, one in zip(prompts, right, strict=True)]

        def second_reward(prompts, completions, **_):
            right = is_correct(completions)
            return [None if is_first(prompt) else one for prompt, one in zip(prompts, right, strict=True)]

        named = {"correct_reward": "first_reward", "advantage_shaping": "f_grpo"}
        trainer = run([first_reward, second_reward], dynamic_sampling="resample", **named)
        alone = run(accuracy_reward, dynamic_sampling="resample", advantage_shaping="none")
        assert torch.equal(trainer.written[0]["completion_ids"], alone.written[0]["completion_ids"])

    def test_a_length_that_differs_in_every_group_is_reported(self, run, caplog):
        """Two of three prompts have completions that are all equally correct."""
        rows = numbered(48).filter(lambda row: number(row["prompt"]) % 4)
        trainer = run(OPEN_R1, rows, dynamic_sampling="resample", max_steps=2)
        (text,) = [record.message for record in caplog.records if "correct_reward" in record.message]
        assert "accuracy_reward" in text
        assert trainer.state.log_history[0]["dynamic_sampling/without_judge"] > 0.5

    def test_functions_that_are_normalized_apart(self, run):
        """A group with equal sums and different parts has advantages if each function is normalized by itself."""

        def opposite(completions, **_):
            return [1 - right for right in is_correct(completions)]

        rewards = {"reward_weights": [1.0, 2.0], "multi_objective_aggregation": "normalize_then_sum"}
        trainer = run([accuracy_reward, opposite], dynamic_sampling="resample", **rewards)
        assert (trainer.written[0]["advantages"] != 0).all()


def test_a_former_name_still_works(tmp_path, caplog):
    old, new = "dynamic_sampling_reward", "correct_reward"
    config = SteerGRPOConfig(str(tmp_path), dynamic_sampling="resample", use_cpu=True, bf16=False, **{old: "accuracy"})
    assert getattr(config, new) == "accuracy" and getattr(config, old) is None
    assert new in caplog.text
    with pytest.raises(ValueError, match=new):
        SteerGRPOConfig(str(tmp_path), use_cpu=True, bf16=False, **{old: "accuracy", new: "other"})
