"""Every shipped configuration parses with unknown keys refused, and says what its comments say."""

import os
import re

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from support import ROOT

from steer_trl.cli.parser import split_off
from steer_trl.cli.recipe_files import load_recipe
from steer_trl.cli.train import parse as parse_arguments
from steer_trl.shaping import SHAPERS

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
    typo.write_text(f"extends: {path}\nsteer_lamda_min: 0.7\n")
    with pytest.raises(ValueError, match="steer_lamda_min"):
        parse(typo)
    with pytest.raises(ValueError, match="steer_lamda_min"):
        parse(path, "--steer_lamda_min", "0.7")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_contradictory_keys_are_refused(path, tmp_path):
    clash = tmp_path / "clash.yaml"
    clash.write_text(f"extends: {path}\nadvantage_shaping: [steer, none]\n")
    with pytest.raises(ValueError, match="'none' cannot be combined"):
        parse(clash)
    clash.write_text(f"extends: {path}\nadvantage_shaping: dcpo\nepsilon: 0.1\n")
    with pytest.raises(ValueError, match=r"epsilon=0\.1 cannot be combined with 'dcpo'"):
        parse(clash)


@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.name)
def test_engine_configuration_parses(path):
    config = load_config_from_file(str(path))
    assert config.num_processes >= 1


def test_the_papers_form_keeps_eq_10_in_every_step_of_a_rollout():
    _, args, _ = parse(ROOT / "configs/recipes/methods/steer_paper.yaml")
    assert args.steps_per_generation > args.gradient_accumulation_steps and args.shaping_scope == "exact_step"


STEER, STARE = (32, 512, 150, 3072), (64, 64, 2000, 3072)
# Engine; prompts of an optimizer step and of a rollout, rollouts, tokens of a completion; W.
PAPERS = {
    "steer_qwen2.5_math_1.5b": ("zero2", *STEER, None, "Qwen/Qwen2.5-Math-1.5B"),
    "steer_qwen2.5_math_7b": ("zero3", *STEER, None, "Qwen/Qwen2.5-Math-7B"),
    "steer_qwen2.5_14b": ("zero3", *STEER, None, "Qwen/Qwen2.5-14B"),
    "stare_short_cot_qwen2.5_math_7b": ("zero3", *STARE, 1.1, "Qwen/Qwen2.5-Math-7B"),
    "stare_short_cot_qwen2.5_14b": ("zero3", *STARE[:3], 7168, 1.05, "Qwen/Qwen2.5-14B-Instruct"),
    "stare_short_cot_qwen2.5_32b": ("multi_node", *STARE[:3], 15360, 1.05, "Qwen/Qwen2.5-32B"),
    "stare_long_cot_r1_distill_1.5b": (
        "zero2",
        *STARE[:3],
        15360,
        1.1,
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
    ),
    "stare_long_cot_qwen3_8b_base": ("zero3", *STARE[:3], 15360, 1.1, "Qwen/Qwen3-8B-Base"),
    "stare_tools_qwen3_8b": ("zero3", *STARE[:3], 15360, 1.1, "Qwen/Qwen3-8B"),
    "stare_lora_24gb": ("single_gpu", 8, 8, 500, 3072, 1.1, "Qwen/Qwen2.5-Math-1.5B"),
}


def test_every_recipe_is_a_papers_or_one_for_a_cpu():
    assert {path.stem for path in RECIPES} == {*PAPERS, "smoke_cpu", "countdown"}


@pytest.mark.parametrize("name", PAPERS)
def test_the_batch_arithmetic_is_the_papers(name):
    engine, per_step, per_rollout, rollouts, tokens, amplify, model_name = PAPERS[name]
    path = ROOT / f"configs/recipes/{name}.yaml"
    _, args, model = parse(path)
    devices = load_config_from_file(str(ROOT / f"configs/accelerate/{engine}.yaml")).num_processes
    completions = devices * args.per_device_train_batch_size
    assert completions * args.gradient_accumulation_steps == per_step * args.num_generations
    assert completions * args.steps_per_generation == per_rollout * args.num_generations
    assert args.max_steps * per_step == rollouts * per_rollout
    assert (args.max_completion_length, args.vllm_max_model_length) == (tokens, tokens + 1024)
    assert (model.model_name_or_path, args.output_dir) == (model_name, f"runs/{name}")
    assert devices % args.vllm_tensor_parallel_size == 0
    assert args.advantage_shaping == name.split("_")[0]
    if amplify:  # O1 attenuates nothing: M is left unset
        assert (args.stare_variant, args.stare_amplify, args.stare_attenuate) == ("O1", amplify, 0.9)
    # The comments' own sums, and the engine they name.
    comments = "".join(line for line in path.read_text().splitlines(True) if line.startswith("#"))
    assert f"--accelerate_config {engine}" in comments
    sums = re.findall(r"= (\d+) GPUs? x (\d+)(?: \(\w+\))? x (\d+)", comments)
    ours = [args.gradient_accumulation_steps, args.steps_per_generation]
    expected = [(devices, args.per_device_train_batch_size, factor) for factor in dict.fromkeys(ours)]
    assert [tuple(map(int, numbers)) for numbers in sums] == expected


def test_the_14b_recipe_takes_the_papers_m_with_a_variant_that_attenuates():
    path = ROOT / "configs/recipes/stare_short_cot_qwen2.5_14b.yaml"
    assert "# stare_attenuate: 0.95" in path.read_text()
    _, args, _ = parse(path, "--stare_variant", "C2", "--stare_attenuate", "0.95")
    assert (args.stare_amplify, args.stare_attenuate) == (1.05, 0.95)


def test_the_7b_recipe_has_the_papers_settings():
    _, args, _ = parse(ROOT / "configs/recipes/steer_qwen2.5_math_7b.yaml")
    assert args.num_generations == 8
    assert args.save_steps == 10 * 16  # 10 rollouts
    assert (args.learning_rate, args.beta, args.max_completion_length) == (1e-6, 0, 3072)
    assert (args.epsilon, args.epsilon_high, args.delta, args.steer_lambda_min) == (0.2, 0.28, 10, 0.8)
    assert (args.temperature, args.top_p, args.loss_type) == (1, 1, "dapo")
    assert (args.use_vllm, args.vllm_mode) == (True, "colocate")


METHODS = sorted(ROOT.glob("configs/recipes/methods/*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_comment_names_recipes_and_engines_as_they_are_found_anywhere(path):
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert not [line for line in comments if "configs/" in line]


def test_every_method_has_a_recipe():
    used = {name for path in METHODS for name in parse(path)[1].shaping_names}
    assert used == set(SHAPERS)


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.stem)
def test_a_methods_recipe_changes_only_what_is_the_methods(path):
    base, own = load_recipe(ROOT / "configs/recipes/steer_qwen2.5_math_7b.yaml"), load_recipe(path)
    changed = {name for name in own if own[name] != base.get(name, object())}
    clipping = {"epsilon", "epsilon_high", "delta", "loss_type", "shaping_scope", "hold_entropy"}
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


class TestCommandLine:
    def test_a_flag_and_its_value_in_one_word(self):
        path = ROOT / "configs/recipes/smoke_cpu.yaml"
        assert parse_arguments([f"--config={path}", "--max_steps=7"])[1].max_steps == 7
        assert split_off("--config", ["--a", "--config=x=y", "b"]) == ("x=y", ["--a", "b"])
        assert split_off("--config", ["--accelerate_config", "x"]) == (None, ["--accelerate_config", "x"])

    def test_an_empty_environment(self, tmp_path):
        recipe = tmp_path / "a.yaml"
        recipe.write_text(f"extends: {ROOT}/configs/recipes/smoke_cpu.yaml\nenv:\n")
        assert parse_arguments(["--config", str(recipe)])[1].max_steps == 2


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
        with pytest.raises(ValueError, match="must be a YAML mapping, got a list"):
            load_recipe(self.write(tmp_path, a="- x\n"))

    def test_environment_variables_are_set(self, tmp_path, monkeypatch):
        monkeypatch.delenv("OF_A_RECIPE", raising=False)
        base = ROOT / "configs/recipes/smoke_cpu.yaml"
        parse(self.write(tmp_path, a=f"extends: {base}\nenv: {{OF_A_RECIPE: 7}}\n"))
        assert os.environ["OF_A_RECIPE"] == "7"
