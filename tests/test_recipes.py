"""Every shipped configuration parses with unknown keys refused, and says what its comments say."""

import sys
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from trl import ModelConfig

from steer_trl import SteerGRPOConfig
from steer_trl.recipes import RecipeParser

ROOT = Path(__file__).parents[1]
RECIPES = sorted(ROOT.glob("configs/recipes/*.yaml"))
ENGINES = sorted(ROOT.glob("configs/accelerate/*.yaml"))
sys.path.insert(0, str(ROOT / "examples"))

from train_math import MathArguments  # noqa: E402


def parse(path, *overrides):
    on_this_machine = ["--use_cpu", "true", "--bf16", "false"]
    parser = RecipeParser((MathArguments, SteerGRPOConfig, ModelConfig))
    return parser.parse_args_and_config(["--config", str(path), *on_this_machine, *overrides])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_recipe_parses(path):
    math_args, training_args, model_args = parse(path)
    assert math_args.dataset_name and model_args.model_name_or_path and training_args.shaping_names


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_unknown_keys_are_refused(path, tmp_path):
    typo = tmp_path / "typo.yaml"
    typo.write_text(path.read_text() + "\nsteer_lamda_min: 0.7\n")
    with pytest.raises(ValueError, match="steer_lamda_min"):
        parse(typo)
    with pytest.raises(ValueError, match="steer_lamda_min"):
        parse(path, "--steer_lamda_min", "0.7")


@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.name)
def test_engine_configuration_parses(path):
    config = load_config_from_file(str(path))
    assert config.num_processes >= 1


def test_the_7b_recipe_has_the_papers_batches():
    _, args, model = parse(ROOT / "configs/recipes/steer_qwen2.5_math_7b.yaml")
    devices = load_config_from_file(str(ROOT / "configs/accelerate/zero3.yaml")).num_processes
    per_step = devices * args.per_device_train_batch_size * args.gradient_accumulation_steps
    per_rollout = devices * args.per_device_train_batch_size * args.steps_per_generation
    assert args.num_generations == 8
    assert per_step == 32 * 8 and per_rollout == 512 * 8  # 32 and 512 prompts
    assert args.max_steps == 150 * per_rollout // per_step
    assert args.save_steps == 10 * per_rollout // per_step
    assert (args.learning_rate, args.beta, args.max_completion_length) == (1e-6, 0, 3072)
    assert (args.epsilon, args.epsilon_high, args.delta, args.steer_lambda_min) == (0.2, 0.28, 10, 0.8)
    assert (args.temperature, args.top_p, args.loss_type) == (1, 1, "dapo")
    assert (args.use_vllm, args.vllm_mode) == (True, "colocate")
    assert model.model_name_or_path == "Qwen/Qwen2.5-Math-7B"
