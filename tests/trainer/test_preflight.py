"""Arguments that cannot work are refused before anything is loaded."""

import pytest
from datasets import Dataset
from support.runs import CHARACTERS, ON_CPU, count_reward

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.tiny import tiny_tokenizer


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
        for rows in (["a", "b", "c"], []):
            with pytest.raises(ValueError, match=f"train_dataset must have >= 4 rows, got {len(rows)}"):
                self.refused(model_dir, tokenizer, train_dataset=Dataset.from_dict({"prompt": rows}), args=args)

    def test_names_in_the_place_of_benchmarks(self, model_dir, tokenizer, tmp_path):
        said = r"benchmarks must be a BenchmarkEvaluation, got \['aime24'\]\. .*load_benchmarks\(\['math500'\]\)"
        with pytest.raises(ValueError, match=said):
            SteerGRPOTrainer(model_dir, count_reward, benchmarks=["aime24"])

    def test_conversations_for_a_model_without_a_chat_template(self, make_trainer):
        chats = Dataset.from_dict({"prompt": [[{"role": "user", "content": "1+1?"}]] * 8})
        base = tiny_tokenizer(CHARACTERS)
        base.chat_template = None
        given = {"train_dataset": chats, "processing_class": base}
        with pytest.raises(ValueError, match="has no chat template, but the prompts are conversations"):
            make_trainer(SteerGRPOTrainer, trainer_arguments=given)

    def test_positional_arguments_and_the_default_configuration(self, model_dir, tokenizer, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        # TRL's default is bf16, which a machine without a GPU refuses; only the construction is looked at here.
        monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)
        dataset = Dataset.from_dict({"prompt": ["1+1="] * 8})
        trainer = SteerGRPOTrainer(model_dir, count_reward, None, dataset, dataset.select([0]), tokenizer)
        assert isinstance(trainer.args, SteerGRPOConfig) and trainer.args.advantage_shaping == "steer"
        assert len(trainer.eval_dataset) == 1
