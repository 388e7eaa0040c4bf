"""Every shipped configuration parses with unknown keys refused, and says what its comments say."""

import os
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file

from steer_trl.recipes import load_recipe
from steer_trl.shaping import SHAPERS
from steer_trl.train import parse as parse_arguments

ROOT = Path(__file__).parents[1]
RECIPES = sorted(ROOT.glob("configs/recipes/*.yaml"))
ENGINES = sorted(ROOT.glob("configs/accelerate/*.yaml"))


def parse(path, *overrides):
    on_this_machine = ["--use_cpu", "true", "--bf16", "false"]
    return parse_arguments(["--config", str(path), *on_this_machine, *overrides])


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


METHODS = sorted(ROOT.glob("configs/recipes/methods/*.yaml"))


def test_every_method_has_a_recipe():
    used = {name for path in METHODS for name in parse(path)[1].shaping_names}
    assert used == set(SHAPERS)


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.stem)
def test_a_methods_recipe_changes_only_what_is_the_methods(path):
    base, own = load_recipe(ROOT / "configs/recipes/steer_qwen2.5_math_7b.yaml"), load_recipe(path)
    changed = {name for name in own if own[name] != base.get(name, object())}
    clipping = {"epsilon", "epsilon_high", "delta", "loss_type", "shaping_scope"}
    trl = {"entropy_coef", "use_adaptive_entropy", "entropy_coef_delta", "entropy_coef_max", "entropy_target"}
    trl |= {"top_entropy_quantile", "beta", "use_bias_correction_kl"}
    batch = {"per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"}
    rest = {name for name in changed - {"output_dir", "advantage_shaping"} if not name.startswith(tuple(SHAPERS))}
    assert rest <= clipping | (trl if own["advantage_shaping"] == "none" else set()) | (
        batch if path.stem == "steer_released" else set()
    )
    _, args, _ = parse(path)
    assert 8 * args.per_device_train_batch_size * args.gradient_accumulation_steps == 256
    assert 8 * args.per_device_train_batch_size * args.steps_per_generation == 4096


class TestExtends:
    def write(self, folder, **recipes):
        for name, text in recipes.items():
            (folder / f"{name}.yaml").write_text(text)
        return folder / f"{next(iter(recipes))}.yaml"

    def test_the_nearest_file_wins(self, tmp_path):
        path = self.write(tmp_path, a="extends: b.yaml\nx: 1\n", b="extends: c.yaml\nx: 2\ny: 2\n", c="y: 3\nz: 3\n")
        assert load_recipe(path) == {"x": 1, "y": 2, "z": 3}

    def test_a_circle_a_missing_file_and_a_list_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="extends itself"):
            load_recipe(self.write(tmp_path, a="extends: b.yaml\n", b="extends: a.yaml\n"))
        with pytest.raises(FileNotFoundError, match=r"no recipe .*nowhere\.yaml"):
            load_recipe(self.write(tmp_path, a="extends: nowhere.yaml\n"))
        with pytest.raises(ValueError, match="a recipe is a YAML mapping"):
            load_recipe(self.write(tmp_path, a="- x\n"))

    def test_environment_variables_are_set(self, tmp_path, monkeypatch):
        monkeypatch.delenv("OF_A_RECIPE", raising=False)
        base = ROOT / "configs/recipes/smoke_cpu.yaml"
        parse(self.write(tmp_path, a=f"extends: {base}\nenv: {{OF_A_RECIPE: 7}}\n"))
        assert os.environ["OF_A_RECIPE"] == "7"
