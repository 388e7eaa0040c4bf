"""Arguments that cannot work are refused before anything is loaded."""

import pytest
from datasets import Dataset
from support.runs import CHARACTERS, ON_CPU, count_reward
from trl import GRPOConfig

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_tokenizer


def test_a_plain_grpo_config(model_dir, prompts, tmp_path):
    with pytest.raises(TypeError, match=r"args must be a SteerGRPOConfig, .* got a GRPOConfig"):
        SteerGRPOTrainer(model_dir, count_reward, GRPOConfig(output_dir=str(tmp_path), **ON_CPU), prompts)


@pytest.mark.parametrize("rows", [3, 0])
def test_fewer_prompts_than_a_rollout_takes(make_trainer, prompts, rows):
    """TRL drops the rollout it cannot fill, and ends without having trained."""
    sizes = {"per_device_train_batch_size": 8, "num_generations": 4, "steps_per_generation": 2}
    with pytest.raises(ValueError, match=f"train_dataset must have >= 4 rows, got {rows}"):
        make_trainer(SteerGRPOTrainer, **sizes, trainer_arguments={"train_dataset": prompts.select(range(rows))})


def test_names_in_the_place_of_benchmarks(model_dir):
    said = r"benchmarks must be a BenchmarkEvaluation, got \['aime24'\]\. .*load_benchmarks\(\['math500'\]\)"
    with pytest.raises(ValueError, match=said):
        SteerGRPOTrainer(model_dir, count_reward, benchmarks=["aime24"])


def test_conversations_for_a_model_without_a_chat_template(make_trainer):
    given = {"train_dataset": Dataset.from_dict({"prompt": [[{"role": "user", "content": "1+1?"}]] * 8})}
    given["processing_class"] = tiny_tokenizer(CHARACTERS)
    given["processing_class"].chat_template = None
    with pytest.raises(ValueError, match="has no chat template, but the prompts are conversations"):
        make_trainer(SteerGRPOTrainer, trainer_arguments=given)


def test_positional_arguments_and_the_default_configuration(model_dir, tokenizer, prompts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # TRL's default is bf16, which a machine without a GPU refuses; only the construction is looked at here.
    monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)
    trainer = SteerGRPOTrainer(model_dir, count_reward, None, prompts, prompts.select([0]), tokenizer)
    assert isinstance(trainer.args, SteerGRPOConfig) and trainer.args.advantage_shaping == "steer"
    assert len(trainer.eval_dataset) == 1
