"""Dynamic sampling: only informative groups are trained on, and nothing else about a run changes."""

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from support.digits import nothing
from support.groups import Given, brevity, is_correct, is_informative, number, numbered
from support.runs import OPEN_STARE, Watching, same_parameters
from transformers import TrainerCallback

from steer_trl import SteerGRPOTrainer
from steer_trl.trainer.inputs import loss_mask
from steer_trl.trainer.sampling.completions import to_plain

# Four groups of four in a rollout, which is one optimizer step of four micro-batches.
SIZES = {"gradient_accumulation_steps": 4, "max_steps": 2, "max_completion_length": 16, "shuffle_dataset": False}
RESAMPLE = {"dynamic_sampling": "resample"}


@pytest.fixture
def run(train):
    """Train on given groups; what was asked for is in `trainer.rollout_func.asked`."""

    def train_on(rows, *, rewards=is_correct, write=None, trainer_class=Watching, **fields):
        dataset = numbered(rows) if isinstance(rows, int) else rows
        arguments = {"rollout_func": write or Given(), "reward_funcs": rewards, "train_dataset": dataset}
        return train(trainer_class, trainer_arguments=arguments, **SIZES | fields)

    return train_on


def trained_on(trainer):
    """The number of each prompt whose completions were trained on, rollout by rollout."""
    tokenizer = trainer.processing_class
    return [
        [
            number(tokenizer.decode(row, skip_special_tokens=True))
            for row, mask in zip(rollout["prompt_ids"], loss_mask(rollout), strict=True)
            if mask.any()
        ]
        for rollout in trainer.written
    ]


def column(trainer, key):
    return [entry[key] for entry in trainer.state.log_history if entry.get(key) is not None]


def in_fours(prompts):
    return [prompt for prompt in prompts for _ in range(4)]


class TestResample:
    def test_only_informative_groups_are_trained_on(self, run):
        trainer = run(40, **RESAMPLE)
        assert trained_on(trainer) == [in_fours([0, 2, 4, 6]), in_fours([8, 10, 12, 14])]
        assert all((rollout["advantages"].abs() > 0.5).all() for rollout in trainer.written)
        plain = run(40)
        assert trained_on(plain) == [in_fours([0, 1, 2, 3]), in_fours([4, 5, 6, 7])]

    def test_informative_groups_are_trained_on_as_without_resampling(self, train):
        """Real generation, several passes over a data set that no number of batches fills."""

        def alternating(completions, **_):
            return [float(i % 2) for i in range(len(completions))]

        arguments = {"trainer_arguments": {"reward_funcs": alternating, "train_dataset": numbered(5)}}
        schedule = {"steps_per_generation": 4, "num_iterations": 2, "max_steps": 10}
        for method in ({"advantage_shaping": "none"}, OPEN_STARE):
            plain, resampled = (
                train(SteerGRPOTrainer, **arguments, **schedule, **method, **switch) for switch in ({}, RESAMPLE)
            )
            assert same_parameters(plain, resampled)
            assert column(plain, "reward") == column(resampled, "reward")

    def test_rounds_of_different_lengths_make_one_rollout(self, run):
        """Prompts are padded left and completions right, and the denominator is that of the chosen completions."""
        trainer = run(40, **RESAMPLE, max_steps=1)
        (rollout,) = trainer.written
        tokenizer, given = trainer.processing_class, Given()
        prompts = [prompt for prompt in numbered(8)["prompt"] if is_informative(prompt)]
        expected = given(in_fours(prompts), trainer)
        for i in range(16):
            for side in ("prompt", "completion"):
                ids = rollout[f"{side}_ids"][i][rollout[f"{side}_mask"][i].bool()].tolist()
                assert ids == expected[f"{side}_ids"][i]
            logps = rollout["sampling_per_token_logps"][i][rollout["completion_mask"][i].bool()]
            assert logps.tolist() == pytest.approx(expected["logprobs"][i])  # as an engine's would
        assert rollout["prompt_mask"][:, -1].all() and rollout["completion_mask"][:, 0].all()
        assert rollout["num_items_in_batch"] == sum(map(len, expected["completion_ids"]))
        assert len({len(ids) for ids in expected["completion_ids"]}) > 3
        assert tokenizer.padding_side == "left"

    def test_groups_left_over_are_trained_on_next(self, run):
        trainer = run(40, **RESAMPLE, dynamic_sampling_factor=3, max_steps=3)
        assert trained_on(trainer) == [in_fours(range(start, start + 8, 2)) for start in (0, 8, 16)]
        assert [number(prompt) for prompt in trainer.rollout_func.asked] == list(range(24))
        assert column(trainer, "dynamic_sampling/waiting") == [2, 4, 0]
        assert column(trainer, "dynamic_sampling/attempts") == [1, 1, 0]
        assert len(column(trainer, "reward")) == 2  # nothing was written for the third
        dropping = run(40, **RESAMPLE, dynamic_sampling_factor=3, dynamic_sampling_surplus="drop")
        assert trained_on(dropping) == [in_fours([0, 2, 4, 6]), in_fours([12, 14, 16, 18])]

    def test_an_attempt_has_what_is_missing(self, run):
        """Half of the groups are informative, and the first attempt is as large as a rollout."""
        trainer = run(80, **RESAMPLE, dynamic_sampling_factor=0, max_steps=8)
        asked = [number(prompt) for prompt in trainer.rollout_func.asked]
        assert asked == list(range(len(asked)))
        assert trained_on(trainer) == [in_fours(range(start, start + 8, 2)) for start in range(0, 64, 8)]
        attempts = column(trainer, "dynamic_sampling/attempts")
        assert sum(attempts) < sum(column(run(80, **RESAMPLE, max_steps=8), "dynamic_sampling/attempts"))
        assert max(column(trainer, "dynamic_sampling/waiting")) < 4

    def test_an_attempt_is_bounded_without_informative_groups(self, run):
        sizes = {"dynamic_sampling_factor": 0, "dynamic_sampling_max_attempts": 4}
        trainer = run(60, **RESAMPLE, **sizes, rewards=nothing, max_steps=1)
        assert len(trainer.rollout_func.asked) == 4 + 3 * 12

    def test_no_prompt_comes_twice_in_a_pass(self, run):
        trainer = run(30, **RESAMPLE, shuffle_dataset=True, max_steps=6)
        asked = [number(prompt) for prompt in trainer.rollout_func.asked]
        assert len(asked) > 30
        first, second = asked[:28], asked[28:]  # a pass ends where no four prompts are left
        assert max(Counter(first).values()) == max(Counter(second).values()) == 1
        assert first[: len(second)] != second  # and is shuffled anew
        assert column(trainer, "dynamic_sampling/epochs")[-1] == pytest.approx(1 + len(second) / 30)

    def test_correctness_decides_not_the_shaped_reward(self, run):
        rewards = [is_correct, brevity]
        trainer = run(40, rewards=rewards, **RESAMPLE, correct_reward="is_correct")
        assert trained_on(trainer) == [in_fours([0, 2, 4, 6]), in_fours([8, 10, 12, 14])]
        other = run(40, rewards=rewards, **RESAMPLE, correct_reward="brevity")
        assert trained_on(other) == [in_fours([0, 1, 2, 3]), in_fours([4, 5, 6, 7])]

    def test_evaluation_is_left_alone(self, run, train):
        dataset = numbered(4)
        arguments = {"rollout_func": Given(), "reward_funcs": is_correct, "train_dataset": numbered(40)}
        arguments["eval_dataset"] = dataset
        settings = SIZES | RESAMPLE | {"eval_strategy": "steps", "eval_steps": 1}
        trainer = train(SteerGRPOTrainer, trainer_arguments=arguments, **settings)
        assert column(trainer, "eval_reward") == [0.5, 0.5]  # two mixed, one always, one never solved
        assert not [key for entry in trainer.state.log_history for key in entry if key.startswith("eval_dynamic")]


class TestTooFewGroups:
    HARD = numbered(40).filter(lambda row: number(row["prompt"]) % 4 == 1)
    FEW = RESAMPLE | {"dynamic_sampling_max_attempts": 2}

    def test_the_run_goes_on_and_says_so_once(self, run, caplog):
        start = run(self.HARD, max_steps=1, learning_rate=0.0)
        trainer = run(self.HARD, **self.FEW, max_steps=3)
        assert trainer.state.global_step == 3 and same_parameters(start, trainer)
        assert column(trainer, "dynamic_sampling/uninformative") == [1, 1, 1]
        assert column(trainer, "dynamic_sampling/all_incorrect") == [1, 1, 1]
        assert caplog.text.count("found 0 of the 4 groups of a rollout in 2 attempts (8 prompts)") == 1

    def test_missing_groups_are_filled_with_uninformative_ones(self, run):
        """Two of four groups are informative: the loss is half of theirs alone, in a rollout of the same size."""
        trainer = run(numbered(4), **RESAMPLE, dynamic_sampling_max_attempts=1, max_steps=1)
        assert trained_on(trainer) == [in_fours([0, 2, 1, 3])]
        assert (trainer.written[0]["advantages"] == 0).tolist() == [False] * 8 + [True] * 8
        assert column(trainer, "dynamic_sampling/uninformative") == [0.5]


class TestLoss:
    """The same groups: chosen among others, or alone."""

    METHODS = {
        "stare": OPEN_STARE | {"stare_amplify": 2.0},
        "rollouts": {"advantage_shaping": ["gtpo"]},
        "whole rollout": {"advantage_shaping": "steer", "steer_lambda_min": 0.3, "scale_rewards": "batch"},
    }
    SGD = {"optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "max_steps": 1}

    @pytest.mark.parametrize("method", METHODS)
    def test_the_loss_is_of_informative_groups_alone(self, run, method):
        settings = self.SGD | self.METHODS[method]
        alone = {"gradient_accumulation_steps": 2}
        informative = numbered(4).filter(lambda row: is_informative(row["prompt"]))
        runs = {
            "alone": run(informative, **settings, **alone),
            "resampled": run(numbered(4), **settings, **alone, **RESAMPLE),
        }
        expected = dict(runs["alone"].model.named_parameters())
        start = dict(run(numbered(4), **settings | {"learning_rate": 0.0}).model.named_parameters())
        assert any(not torch.equal(start[name], value) for name, value in expected.items())
        for name, trainer in runs.items():
            for key, value in trainer.model.named_parameters():
                torch.testing.assert_close(value, expected[key], rtol=0, atol=2e-6, msg=f"{name}: {key}")
        for key in ("rollout_entropy", "shaping/weight_mean", "shaping/share_changed"):
            assert column(runs["resampled"], key) == pytest.approx(column(runs["alone"], key), rel=1e-5)
        plain = run(numbered(4), **settings)
        assert not all(
            torch.allclose(value, expected[key], rtol=0, atol=1e-5) for key, value in plain.model.named_parameters()
        )

    def test_truncated_completions_may_be_masked_as_well(self, run):
        trainer = run(numbered(4), **RESAMPLE, mask_truncated_completions=True, max_steps=1, advantage_shaping="gtpo")
        assert not loss_mask(trainer.written[0]).any()  # none of the given ones ends


class TestLog:
    def test_the_reward_is_of_everything_written(self, run):
        trainer = run(40, **RESAMPLE, max_steps=1)
        (log,) = [entry for entry in trainer.state.log_history if "reward" in entry]
        expected = {
            "reward": 0.5,
            "rewards/is_correct/mean": 0.5,
            "frac_reward_zero_std": 0.5,
            "informative": 0.5,
            "all_correct": 0.25,
            "all_incorrect": 0.25,
            "accuracy": 0.5,
            "accuracy_trained": 0.5,
            "accuracy_dropped": 0.5,
            "reward_trained": 0.5,
            "reward_dropped": 0.5,
            "uninformative": 0,
            "attempts": 2,
            "waiting": 0,
            "epochs": 0.2,
        }
        given = Given()
        lengths = {
            prompt: sum(map(len, given([prompt] * 4, trainer)["completion_ids"])) for prompt in numbered(8)["prompt"]
        }
        kept = sum(length for prompt, length in lengths.items() if is_informative(prompt))
        expected["tokens_per_trained_token"] = sum(lengths.values()) / kept
        for key, value in expected.items():
            assert log.get(key, log.get(f"dynamic_sampling/{key}")) == pytest.approx(value), key

    @pytest.mark.parametrize("switch", [RESAMPLE, RESAMPLE | {"dynamic_sampling_max_attempts": 1}], ids=str)
    def test_the_table_of_completions(self, run, switch, tmp_path):
        """One row per completion of the rollout, with every reward, and what the reward function adds to it."""

        def telling(completions, log_extra=None, log_metric=None, **_):
            log_extra("text", list(completions))
            log_metric("told", float(len(completions)))
            return is_correct(completions)

        trainer = run(40, rewards=telling, **switch, log_completions=True, max_steps=1)
        table = pd.read_parquet(tmp_path / "run/completions/completions_00001.parquet")
        assert len(table) == 16 and list(table["completion"]) == list(table["text"])
        assert list(table["telling"]) == is_correct(table["completion"])
        assert column(trainer, "told") == [16]

    def test_columns_of_any_type_are_shown(self, run, tmp_path):
        """Groups that wait are stored without running code from a file, so an object is shown as its text."""

        def telling(completions, log_extra=None, **_):
            log_extra("fraction", [Fraction(len(text), 7) for text in completions])
            log_extra("place", [Path(text) for text in completions])
            return is_correct(completions)

        run(40, rewards=telling, **RESAMPLE, log_completions=True, max_steps=1)
        table = pd.read_parquet(tmp_path / "run/completions/completions_00001.parquet")
        assert list(table["fraction"]) == [str(Fraction(len(text), 7)) for text in table["completion"]]
        assert list(table["place"]) == list(table["completion"])

    def test_a_column_of_another_length_is_named(self, run):
        def telling(completions, log_extra=None, **_):
            log_extra("short", ["x"])
            return is_correct(completions)

        with pytest.raises(ValueError, match=r"short.* 16 values, got 1"):
            run(40, rewards=telling, **RESAMPLE, log_completions=True, max_steps=1)


class TestCheckpoint:
    SETTINGS = RESAMPLE | {
        "dynamic_sampling_factor": 2,
        "save_strategy": "steps",
        "save_steps": 1,
        "max_steps": 6,
        "shuffle_dataset": True,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 4,
    }

    def go_on(self, make_trainer, tmp_path, step, rows=30, rewards=is_correct, write=None, data=None, **fields):
        data = numbered(rows) if data is None else data
        arguments = {"rollout_func": write or Given(), "reward_funcs": rewards, "train_dataset": data}
        trainer = make_trainer(Watching, trainer_arguments=arguments, **SIZES | self.SETTINGS | fields)
        trainer.train(resume_from_checkpoint=str(tmp_path / f"run/checkpoint-{step}"))
        return trainer

    @pytest.mark.parametrize("factor", [2, 0])
    def test_a_resumed_run_reads_on_where_it_was(self, run, make_trainer, tmp_path, factor):
        """Between two rollouts, and in the middle of one."""
        sizes = {"dynamic_sampling_factor": factor}
        whole = run(30, **self.SETTINGS | sizes)
        asked, waiting = whole.rollout_func.asked, column(whole, "dynamic_sampling/waiting")
        assert any(waiting)
        for step in (2, 3):
            resumed = self.go_on(make_trainer, tmp_path, step, save_strategy="no", **sizes)
            assert same_parameters(whole, resumed)
            assert resumed.rollout_func.asked == asked[len(asked) - len(resumed.rollout_func.asked) :]
            assert column(resumed, "dynamic_sampling/epochs") == column(whole, "dynamic_sampling/epochs")

    def test_other_settings(self, run, make_trainer, tmp_path, caplog):
        run(30, **self.SETTINGS)
        with pytest.raises(ValueError, match="train_dataset must have 30 rows"):
            self.go_on(make_trainer, tmp_path, 4, rows=40)
        resumed = self.go_on(make_trainer, tmp_path, 4, num_generations=8, per_device_train_batch_size=8)
        assert resumed.state.global_step == 6
        assert "The groups that waited for this rollout are dropped: made with" in caplog.text

    def test_a_run_saved_without_resampling_skips_the_prompts_it_has_used(self, run, make_trainer, tmp_path, caplog):
        plain = run(30, **self.SETTINGS | {"dynamic_sampling": "none", "dynamic_sampling_factor": 1})
        resumed = self.go_on(make_trainer, tmp_path, 4)
        assert "dynamic_sampling.pt does not exist" in caplog.text
        # The first four steps have used the eight prompts of two rollouts.
        assert resumed.rollout_func.asked[:4] == plain.rollout_func.asked[8:]

    def test_a_checkpoint_of_an_earlier_version_is_read(self, run, make_trainer, tmp_path):
        whole = run(30, **self.SETTINGS)
        path = tmp_path / "run/checkpoint-4/dynamic_sampling.pt"
        state = torch.load(path, weights_only=True)
        del state["share"]
        torch.save(state, path)
        assert same_parameters(whole, self.go_on(make_trainer, tmp_path, 4, save_strategy="no"))

    def test_another_data_loader_does_not_begin_anew(self, run, make_trainer):
        class Peeking(TrainerCallback):
            def on_step_end(self, *_, **__):
                next(iter(self.trainer.get_train_dataloader()))

        usual, peeking = run(40, **RESAMPLE), Peeking()
        arguments = {"rollout_func": Given(), "reward_funcs": is_correct, "train_dataset": numbered(40)}
        arguments["callbacks"] = [peeking]
        trainer = peeking.trainer = make_trainer(Watching, trainer_arguments=arguments, **SIZES | RESAMPLE)
        trainer.train()
        assert trainer.rollout_func.asked == usual.rollout_func.asked

    def test_another_training_begins_anew(self, run):
        trainer = run(40, **RESAMPLE)
        first = list(trainer.rollout_func.asked)
        trainer.train()
        assert trainer.rollout_func.asked == first * 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"dynamic_sampling_factor": 3}, "=3 cannot be combined with dynamic_sampling='none'"),
            ({"dynamic_sampling": "mask"}, "dynamic_sampling='mask' is unknown"),
            (
                RESAMPLE | {"dynamic_sampling_factor": 1.5},
                "dynamic_sampling_factor must be a whole number in .0, inf.",
            ),
        ],
        ids=str,
    )
    def test_settings_that_exclude_resampling_are_refused(self, make_trainer, fields, message):
        with pytest.raises(ValueError, match=message):
            make_trainer(SteerGRPOTrainer, **fields)

    @pytest.mark.parametrize(
        ("switch", "arguments", "message"),
        [
            (
                RESAMPLE | {"correct_reward": "correct"},
                {"reward_funcs": [is_correct, brevity]},
                r"correct_reward='correct' must be .*\['is_correct', 'brevity'\]",
            ),
            (RESAMPLE, {"train_dataset": numbered(8).to_iterable_dataset()}, "with a streamed train_dataset"),
            (RESAMPLE, {"environment_factory": dict}, "cannot be combined with environment_factory"),
        ],
        ids=["unknown", "streamed", "environment"],
    )
    def test_arguments_that_exclude_resampling_are_refused(self, make_trainer, switch, arguments, message):
        with pytest.raises(ValueError, match=message):
            make_trainer(SteerGRPOTrainer, model="a/missing-model", trainer_arguments=arguments, **switch)

    def test_left_over_groups_are_not_on_policy(self, make_trainer, caplog):
        make_trainer(SteerGRPOTrainer, advantage_shaping="opo", **RESAMPLE)
        assert "opo: it assumes on-policy training, and groups that are left over are" in caplog.text


class TestPlainValues:
    """What waits in a checkpoint is loaded without running anything that the file may say."""

    def test_values_of_numpy_and_torch_become_plain(self):
        given = {
            "length": np.int64(3),
            "parts": ("a", np.True_),
            "ids": torch.tensor([1, 2]),
            "logps": [np.float32(1)],
        }
        assert to_plain(given) == {"length": 3, "parts": ["a", True], "ids": [1, 2], "logps": [1.0]}

    def test_others_are_refused(self):
        with pytest.raises(ValueError, match="cannot keep a Fraction"):
            to_plain([Fraction(1, 2)])
