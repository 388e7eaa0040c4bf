"""Arguments that cannot work are refused before anything is loaded."""

import functools

import pytest
from datasets import Dataset
from support.runs import ON_CPU, count_reward

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer


class TestArguments:
    def refused(self, model_dir, tokenizer, **arguments):
        defaults = {
            "model": model_dir,
            "reward_funcs": count_reward,
            "train_dataset": Dataset.from_dict({"prompt": ["1+1="]}),
            "processing_class": tokenizer,
        }
        return SteerGRPOTrainer(**defaults | arguments)

    def test_a_plain_grpo_config(self, model_dir, tokenizer, tmp_path):
        from trl import GRPOConfig

        args = GRPOConfig(output_dir=str(tmp_path), **ON_CPU)
        with pytest.raises(TypeError, match=r"args must be a SteerGRPOConfig, .* got a GRPOConfig"):
            self.refused(model_dir, tokenizer, args=args)

    def test_fewer_prompts_than_a_rollout_takes(self, model_dir, tokenizer):
        """TRL drops the rollout it cannot fill, and ends without having trained."""
        sizes = {"per_device_train_batch_size": 8, "num_generations": 4, "steps_per_generation": 2}
        args = SteerGRPOConfig(output_dir="unused", **ON_CPU | sizes)
        three = Dataset.from_dict({"prompt": ["a", "b", "c"]})
        with pytest.raises(ValueError, match="train_dataset must have >= 4 rows, got 3"):
            self.refused(model_dir, tokenizer, train_dataset=three, args=args)

    @pytest.mark.parametrize("label", ["train_dataset", "eval_dataset"])
    def test_an_empty_data_set(self, model_dir, tokenizer, label):
        empty = Dataset.from_dict({"prompt": []})
        with pytest.raises(ValueError, match=f"{label} has no rows"):
            self.refused(model_dir, tokenizer, **{label: empty})

    def test_no_prompt(self, model_dir, tokenizer):
        dataset = Dataset.from_dict({"question": ["1+1="]})
        with pytest.raises(
            ValueError, match=r"the trainer needs a column 'prompt', and the columns are \['question'\]"
        ):
            self.refused(model_dir, tokenizer, train_dataset=dataset)

    def test_no_column_for_the_reward(self, model_dir, tokenizer):
        from trl.rewards import accuracy_reward

        with pytest.raises(ValueError, match="the reward function accuracy_reward needs a column 'solution'"):
            self.refused(model_dir, tokenizer, reward_funcs=[count_reward, accuracy_reward])

    @pytest.mark.parametrize("path", ["/nowhere/model", "./nowhere", "a/b/c"])
    def test_a_model_folder_that_is_not_there(self, tokenizer, path):
        with pytest.raises(FileNotFoundError, match="there is no such folder, and it cannot be a name on the Hub"):
            self.refused(path, tokenizer)

    def test_a_model_folder_that_could_be_a_name_on_the_hub(self, tokenizer, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "runs").mkdir()
        with pytest.raises(FileNotFoundError, match="there is a folder 'runs' here, but no such folder in it"):
            self.refused("runs/missing", tokenizer)

    def test_columns_of_a_streamed_data_set(self, model_dir, tokenizer):
        streamed = Dataset.from_dict({"question": ["1+1="]}).to_iterable_dataset()
        with pytest.raises(ValueError, match="the trainer needs a column 'prompt'"):
            self.refused(model_dir, tokenizer, train_dataset=streamed)

    def test_rewards_that_trl_takes_are_taken(self):
        from steer_trl.trainer.preflight import check_trainer_arguments

        def solution_reward(completions, solution, **_):
            return [0.0] * len(completions)

        @functools.wraps(solution_reward)
        def adapter(completions, answer, **_):
            return solution_reward(completions, solution=answer)

        class Callable:
            def __call__(
                self, prompts, completions, completion_ids, trainer_state, log_extra, log_metric, answer, **_
            ):
                return [0.0] * len(completions)

        async def later(*, completions, answer, **_):
            return [0.0] * len(completions)

        fine = [adapter, Callable(), later, functools.partial(solution_reward, solution=[]), max, "a/reward-model"]
        dataset = Dataset.from_dict({"prompt": ["1"], "answer": ["1"]})
        check_trainer_arguments({"model": "some/model", "reward_funcs": fine, "train_dataset": dataset})

    def test_rewards_that_trl_could_not_call(self):
        from steer_trl.trainer.preflight import check_trainer_arguments

        def short(completions):
            return [0.0] * len(completions)

        dataset = Dataset.from_dict({"prompt": ["1"]})
        for function, message in (
            (
                short,
                r"reward function short must accept \*\*kwargs: TRL hands it completion_ids, completions, log_extra",
            ),
            ("math", r"reward_funcs='math' must be a function .* Use steer_trl.rewards.MathReward\(\)"),
        ):
            for others in ({}, {"rollout_func": max}):
                with pytest.raises(ValueError, match=message):
                    check_trainer_arguments(
                        {"model": "some/model", "reward_funcs": [function], "train_dataset": dataset} | others
                    )

    def test_positional_arguments_and_the_default_configuration(self, model_dir, tokenizer, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        # TRL's default is bf16, which a machine without a GPU refuses; only the construction is looked at here.
        monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)
        dataset = Dataset.from_dict({"prompt": ["1+1="] * 8})
        trainer = SteerGRPOTrainer(model_dir, count_reward, None, dataset, dataset.select([0]), tokenizer)
        assert isinstance(trainer.args, SteerGRPOConfig) and trainer.args.advantage_shaping == "steer"
        assert len(trainer.eval_dataset) == 1
