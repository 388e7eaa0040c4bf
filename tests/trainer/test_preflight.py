"""Arguments that cannot work are refused before anything is loaded."""

import functools

import numpy as np
import pytest
import torch
from datasets import Dataset
from support.runs import CHARACTERS, ON_CPU, TINY_RUN, count_reward

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.rewards.returned import reward_complaints
from steer_trl.tiny import tiny_tokenizer
from steer_trl.trainer.checks.preflight import check_trainer_arguments


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

    @pytest.mark.parametrize("path", ["/nowhere/model", "./nowhere", "a/b/c", "runs/missing"])
    def test_a_model_that_is_nowhere_is_refused_by_who_loads_it(self, make_trainer, path):
        with pytest.raises(OSError, match=r"Repo id must|couldn't connect"):
            make_trainer(SteerGRPOTrainer, model=path)

    def test_a_model_that_only_its_loader_can_find_is_left_to_it(self):
        loading = {"cache_dir": "another/cache", "token": "hf_mine"}
        args = SteerGRPOConfig(output_dir="unused", model_init_kwargs=loading, **TINY_RUN)
        check_trainer_arguments({"model": "me/private", "reward_funcs": count_reward, "args": args})

    def test_columns_of_a_streamed_data_set(self, model_dir, tokenizer):
        streamed = Dataset.from_dict({"question": ["1+1="]}).to_iterable_dataset()
        with pytest.raises(ValueError, match="the trainer needs a column 'prompt'"):
            self.refused(model_dir, tokenizer, train_dataset=streamed)

    def test_rewards_that_trl_takes_are_taken(self, model_dir):
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
        check_trainer_arguments({"model": model_dir, "reward_funcs": fine, "train_dataset": dataset})

    def test_rewards_that_trl_could_not_call(self):
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

    def test_names_in_the_place_of_benchmarks(self, model_dir, tokenizer, tmp_path):
        said = r"benchmarks must be a BenchmarkEvaluation, got \['aime24'\]\. .*load_benchmarks\(\['aime24'\]\)"
        with pytest.raises(ValueError, match=said):
            SteerGRPOTrainer(model_dir, count_reward, benchmarks=["aime24"])

    def test_conversations_for_a_model_without_a_chat_template(self, model_dir, tokenizer):
        chats = Dataset.from_dict({"prompt": [[{"role": "user", "content": "1+1?"}]] * 8})
        base = tiny_tokenizer(CHARACTERS)
        base.chat_template = None
        with pytest.raises(ValueError, match="has no chat template, but the prompts are conversations"):
            SteerGRPOTrainer(model_dir, count_reward, train_dataset=chats, processing_class=base)

    def test_prompts_that_are_longer_than_the_models_context(self, make_trainer, prompts, caplog):
        context = make_trainer(SteerGRPOTrainer).model.config.max_position_embeddings
        assert "longest prompt" not in caplog.text
        rows = Dataset.from_dict({"prompt": ["1+1=" * context, *prompts["prompt"][:9]]})
        make_trainer(SteerGRPOTrainer, trainer_arguments={"train_dataset": rows})
        said = f"longest prompt of train_dataset has {4 * context} tokens, and the model's context is {context}"
        assert said in caplog.text

    @pytest.mark.parametrize(
        ("result", "shown"),
        [(1.0, "got 1.0"), ("good", "got 'good'"), (None, "got None"), (["a", 1], "got 'a' among")],
    )
    @pytest.mark.parametrize("sampling", ["none", "resample"])
    def test_a_reward_function_that_returns_no_list_of_numbers_is_named(self, make_trainer, result, shown, sampling):
        def graded(completions, **_):
            return result if not isinstance(result, list) else result * (len(completions) // 2)

        functions = [count_reward, graded] if sampling == "none" else graded
        data = {"reward_funcs": functions}
        trainer = make_trainer(SteerGRPOTrainer, dynamic_sampling=sampling, trainer_arguments=data)
        with pytest.raises(ValueError, match=f"the reward function 'graded' must return a list .*{shown}"):
            trainer.train()

    def test_what_trl_takes_of_a_reward_function_is_taken(self):
        fine = [[1, None, True], (0.5,), np.ones(2), torch.ones(2), [np.float32(1)], [torch.tensor(1.0)]]
        sizes = [3, 1, 2, 2, 1, 1, 5]
        assert [reward_complaints("f", *one) for one in zip([*fine, (x for x in [1.0])], sizes, strict=True)] == [
            []
        ] * 7

    def test_positional_arguments_and_the_default_configuration(self, model_dir, tokenizer, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        # TRL's default is bf16, which a machine without a GPU refuses; only the construction is looked at here.
        monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)
        dataset = Dataset.from_dict({"prompt": ["1+1="] * 8})
        trainer = SteerGRPOTrainer(model_dir, count_reward, None, dataset, dataset.select([0]), tokenizer)
        assert isinstance(trainer.args, SteerGRPOConfig) and trainer.args.advantage_shaping == "steer"
        assert len(trainer.eval_dataset) == 1
