"""Every shipped configuration parses with unknown keys refused, and says what its comments say."""

import os
import sys

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from support import ROOT, SMOKE
from support.runs import save_tiny_model

from steer_trl import SteerGRPOConfig
from steer_trl.cli.eval_arguments import EvalArguments
from steer_trl.cli.parser import RecipeParser
from steer_trl.cli.recipe_files import load_recipe, split_recipe
from steer_trl.cli.train import parse as parse_arguments
from steer_trl.shaping import SHAPERS

sys.path.insert(0, str(ROOT / "tools/docs"))

from departures import filled, papers

BASE = ROOT / "configs/recipes/base_qwen2.5_math_7b.yaml"
RECIPES = [path for path in sorted(ROOT.glob("configs/recipes/*.yaml")) if path != BASE]
ENGINES = sorted(ROOT.glob("configs/accelerate/*.yaml"))


def parse(path, *overrides):
    on_this_machine = ["--use_cpu", "true", "--bf16", "false"]
    return parse_arguments(["--config", str(path), *on_this_machine, *overrides])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_recipe_parses(path):
    math_args, training_args, model_args = parse(path)
    assert math_args.dataset_name and model_args.model_name_or_path
    if engine := ENGINE_OF.get(path.stem):
        assert devices_of(engine) % training_args.vllm_tensor_parallel_size == 0
        assert training_args.vllm_max_model_length == training_args.max_completion_length + 1024
        assert f"--accelerate_config {engine}" in path.read_text() and training_args.output_dir == f"runs/{path.stem}"
    assert training_args.shaping_names or training_args.advantage_shaping == "none"


@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.name)
def test_engine_configuration_parses(path):
    assert load_config_from_file(str(path)).num_processes >= 1


def test_exact_step_keeps_eq_10_throughout():
    _, args, _ = parse(ROOT / "configs/recipes/methods/steer_paper.yaml")
    assert args.steps_per_generation > args.gradient_accumulation_steps and args.shaping_scope == "exact_step"


PAPERS = papers()
# Engine of each recipe; prompts of an optimizer step and of a rollout, and rollouts, where no paper says them.
ENGINE_OF = {
    **{"steer_qwen2.5_math_1.5b": "zero2", "steer_qwen2.5_math_7b": "zero3", "steer_qwen2.5_14b": "zero3"},
    **{"stare_short_cot_qwen2.5_math_7b": "zero3", "stare_short_cot_qwen2.5_14b": "zero3"},
    **{"stare_short_cot_qwen2.5_32b": "multi_node", "stare_long_cot_r1_distill_1.5b": "zero2"},
    **{"stare_long_cot_qwen3_8b_base": "zero3", "stare_tools_qwen2.5_7b": "zero3"},
    **{"recommended_qwen2.5_math_1.5b": "zero2", "recommended_qwen2.5_math_7b": "zero3"},
    **{"recommended_lora_24gb": "single_gpu", "recommended_qwen2.5_32b": "multi_node"},
    **{"recommended_long_cot_r1_distill_1.5b": "zero2"},
}
ON_A_CPU = ("first_run", "countdown", "demo_grpo", "demo_held")
RECOMMENDED = [name for name in ENGINE_OF if name.startswith("recommended_")]


def devices_of(engine):
    return load_config_from_file(str(ROOT / f"configs/accelerate/{engine}.yaml")).num_processes


def found_in(name):
    """All settings of a recipe, and those that follow from several, under the names of tools/docs/papers.yaml."""
    math_args, args, model_args = parse(ROOT / f"configs/recipes/{name}.yaml", "--bf16", "true")
    completions = devices_of(ENGINE_OF.get(name, "zero3")) * args.per_device_train_batch_size
    per_step = completions * args.gradient_accumulation_steps / args.num_generations
    per_rollout = completions * args.steps_per_generation / args.num_generations
    found = vars(model_args) | vars(math_args) | vars(args)
    found |= {"prompts_per_step": per_step, "prompts_per_rollout": per_rollout}
    rollouts = {"rollouts": args.max_steps, "save_rollouts": args.save_steps}
    return found | {name: steps * per_step / per_rollout for name, steps in rollouts.items()}


def test_every_recipe_has_a_kind():
    top = {name for name in PAPERS["recipes"] if "/" not in name}
    assert {path.stem for path in RECIPES} == {*ENGINE_OF, *ON_A_CPU} == {*top, *RECOMMENDED, *ON_A_CPU}


@pytest.mark.parametrize("name", PAPERS["recipes"])
def test_recipes_depart_from_papers_as_listed(name):
    entry = PAPERS["recipes"][name]
    wanted = PAPERS["settings"][entry["of"]] | entry["settings"]
    departs = {d["setting"]: d["ours"] for d in PAPERS["departures"] if d["of"] == entry["of"]}
    departs = {key: value for key, value in departs.items() if key not in entry.get("keeps", ())}
    assert departs.keys() <= wanted.keys()
    assert not [key for key in departs if departs[key] == wanted[key]]  # else it would be no departure
    found = found_in(name)
    expected = wanted | departs
    assert {key: getattr(found[key], "value", found[key]) for key in expected} == expected


def test_the_page_prints_every_departure():
    page = (ROOT / "docs/recipes.md").read_text()
    assert filled(page) == page, "python tools/docs/departures.py"


def test_the_page_prints_the_published_rows():
    page = (ROOT / "docs/recipes.md").read_text()
    for name, entry in PAPERS["recipes"].items():
        for row in (entry[kind] for kind in ("published", "c2") if kind in entry):
            assert " | ".join(map(str, row)) in page, (name, row)
            assert abs(sum(row[:6]) / 6 - row[6]) < 0.06 or entry["of"] == "steer"  # Table 1 of STEER has a slip


def test_the_recommended_recipe_adds_a_level_to_its_method():
    recipe = load_recipe("recommended_qwen2.5_math_7b")
    fields = {name: recipe[name] for name in ("advantage_shaping", "hold_entropy")}
    assert fields == {"advantage_shaping": "f_grpo", "hold_entropy": 0.65}
    assert SteerGRPOConfig("unused", use_cpu=True, bf16=False, **fields).advantage_shaping == ["f_grpo", "stare"]


def test_no_recipe_unsets_what_another_has_set():
    nulls = {path.name for path in ROOT.glob("configs/recipes/**/*.yaml") if ": null" in path.read_text()}
    assert nulls == set()


@pytest.mark.parametrize("name", RECOMMENDED)
def test_a_recipe_of_ours_is_the_measured_setting(name):
    found = found_in(name)
    measured = {
        **{"advantage_shaping": ["f_grpo", "stare"], "stare_variant": "C2", "stare_gate": "none"},
        **{"hold_entropy": 0.65},
        **{"dynamic_sampling": "resample", "dynamic_sampling_surplus": "keep", "dynamic_sampling_factor": 1},
        **{"epsilon": 0.2, "epsilon_high": 0.28, "loss_type": "dapo", "beta": 0.0, "num_generations": 8},
        **{"delta": None, "weight_decay": 0.0},
        **{"prompts_per_step": 16, "prompts_per_rollout": 64, "save_rollouts": 10},
    }
    assert {key: found[key] for key in measured} == measured


@pytest.mark.parametrize(("name", "others"), [("evaluate_steer", 1), ("evaluate_stare", 4)])
def test_an_evaluation_asks_and_draws_as_its_paper(name, others, tmp_path):
    model = save_tiny_model(tmp_path / "model")
    flags = ["--config", name, "--model_name_or_path", str(model), "--output_dir", str(tmp_path / "out")]
    (args,) = RecipeParser((EvalArguments,)).parse_args_and_config(flags)
    first, rest = ("aime24", "aime25", "amc23"), ("math500", "minerva", "olympiadbench")
    assert args.benchmarks == [f"{one}@32" for one in first] + [f"{one}@{others}" for one in rest]
    assert (args.temperature, args.top_p, args.max_tokens, args.instruction) == (1, 0.7, 3072, "papers")


METHODS = sorted(ROOT.glob("configs/recipes/methods/*.yaml"))


def test_every_method_has_a_recipe():
    used = {name for path in METHODS for name in parse(path)[1].shaping_names}
    assert used == set(SHAPERS)


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.stem)
def test_a_methods_recipe_changes_only_its_settings(path):
    base, own = load_recipe(BASE), load_recipe(path)
    changed = {name for name in own if own[name] != base.get(name, object())}
    clipping = {"epsilon", "epsilon_high", "delta", "loss_type", "shaping_scope", "hold_entropy", "dynamic_sampling"}
    trl = {"entropy_coef", "use_adaptive_entropy", "entropy_coef_delta", "entropy_coef_max", "entropy_target"}
    trl |= {"top_entropy_quantile", "beta", "use_bias_correction_kl"}
    batch = {"per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"}
    own_options = {"output_dir", "advantage_shaping", "shaping_options"}
    rest = {name for name in changed - own_options if not name.startswith(tuple(SHAPERS))}
    # Entrocraft's script has a KL penalty, and the divergence takes its coefficient from there.
    penalty = (
        {"beta", "use_bias_correction_kl"} if own["advantage_shaping"] in ("entrocraft", "js_to_start") else set()
    )
    allowed = clipping | (trl if own["advantage_shaping"] == "none" else penalty)
    assert rest <= allowed | (batch if path.stem == "steer_released" else set())
    assert own.get("shaping_options", {}).keys() <= {own["advantage_shaping"]}
    _, args, _ = parse(path)
    assert 8 * args.per_device_train_batch_size * args.gradient_accumulation_steps == 256
    assert 8 * args.per_device_train_batch_size * args.steps_per_generation == 4096


def test_a_flag_and_its_value_in_one_word():
    assert parse_arguments([f"--config={SMOKE}", "--max_steps=7"])[1].max_steps == 7
    assert split_recipe(["--a", "--config=x=y", "b"]) == ("x=y", ["--a", "b"])
    assert split_recipe(["--accelerate_config", "x"]) == (None, ["--accelerate_config", "x"])


def test_the_nearest_of_extending_files_wins(tmp_path):
    texts = {"a": "extends: b.yaml\nx: 1\n", "b": "extends: c.yaml\nx: 2\ny: 2\n", "c": "y: 3\nz: 3\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    assert load_recipe(tmp_path / "a.yaml") == {"x": 1, "y": 2, "z": 3}


@pytest.mark.parametrize("value", ["", "{OF_A_RECIPE: 7}"])
def test_environment_variables_are_set(tmp_path, monkeypatch, value):
    monkeypatch.delenv("OF_A_RECIPE", raising=False)
    (tmp_path / "a.yaml").write_text(f"extends: {SMOKE}\nenv: {value}\n")
    parse(tmp_path / "a.yaml")
    assert os.environ.get("OF_A_RECIPE") == ("7" if value else None)
