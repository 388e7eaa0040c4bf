"""What a user runs, run: the training script, and recipes under `accelerate launch`."""

import json
import re
import runpy

import pytest
import torch
import yaml
from datasets import Dataset
from support import ROOT, SMOKE
from support.processes import flags, run
from support.readme import settings_of_snippets
from support.runs import ON_CPU
from transformers import AutoModelForCausalLM, AutoTokenizer

from steer_trl import SteerGRPOConfig
from steer_trl.cli.recipe_files import load_recipe
from steer_trl.cli.train import parse
from steer_trl.data.instructions import INSTRUCTIONS
from steer_trl.entropy.start import ENOUGH_GROUPS
from steer_trl.monitoring import run_files


def test_the_readme_script_warns_of_nothing(tmp_path, caplog):
    *_, script = settings_of_snippets()
    args = SteerGRPOConfig(**script | ON_CPU, output_dir=str(tmp_path))
    assert args.shaping_names == ("f_grpo", "stare")
    assert args.groups_per_rollout >= ENOUGH_GROUPS
    assert [record.getMessage() for record in caplog.records] == []


@pytest.fixture
def tiny_folder(tmp_path):
    run("-m", "steer_trl.demo.tiny", tmp_path / "tiny", folder=tmp_path)
    return tmp_path / "tiny"


@pytest.fixture
def problems(tmp_path):
    rows = [{"prompt": f"What is {i}+1?", "solution": str(i + 1)} for i in range(8)]
    Dataset.from_list(rows).to_parquet(tmp_path / "problems.parquet")
    return tmp_path / "problems.parquet"


def train(folder, *overrides, recipe=SMOKE, engine="cpu", **options):
    words = ["--model_name_or_path", "tiny", "--dataset_name", "problems.parquet", "--output_dir", "out", *overrides]
    engine = ROOT / f"configs/accelerate/{engine}.yaml"
    run("-m", "steer_trl.cli", "train", "--config", recipe, *words, engine=engine, folder=folder, **options)


def test_smoke_recipe_trains_a_checkpoint_that_transformers_loads(tmp_path, tiny_folder, problems):
    train(tmp_path, launched=True)
    before = AutoModelForCausalLM.from_pretrained(tiny_folder)
    for folder in (tmp_path / "out", tmp_path / "out/checkpoint-2"):
        after = AutoModelForCausalLM.from_pretrained(folder)
        assert not torch.equal(before.lm_head.weight, after.lm_head.weight)
        assert AutoTokenizer.from_pretrained(folder).chat_template
    state = json.loads((tmp_path / "out/checkpoint-2/trainer_state.json").read_text())
    assert {"shaping/weight_mean", "stare/gate", "rollout_entropy"} <= state["log_history"][0].keys()


def test_the_plain_script_has_the_settings_of_its_recipe():
    ours = runpy.run_path(str(ROOT / "examples/train_math.py"))["RECOMMENDED"]
    recipe = load_recipe("recommended_qwen2.5_math_1.5b")
    assert ours == {name: recipe[name] for name in ours}
    assert {"max_steps", "lr_scheduler_type", "max_completion_length", "hold_entropy"} <= ours.keys()


def test_the_plain_script(tmp_path, tiny_folder, problems):
    fields = {"model": tiny_folder, "dataset": problems, "output_dir": tmp_path / "out", "max_steps": 1}
    fields |= {"per_device_train_batch_size": 8, "max_completion_length": 4, "use_cpu": "true", "bf16": "false"}
    fields |= {"gradient_accumulation_steps": 1, "steps_per_generation": 1, "dynamic_sampling_max_attempts": 1}
    run(ROOT / "examples/train_math.py", *flags(fields), folder=tmp_path)
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


@pytest.mark.usefixtures("default_port")
def test_a_dry_run_of_two_processes_ends_when_one_of_them_is_slow(tmp_path, tiny_folder, problems):
    """The main process has made the folder when the other one has loaded its rewards."""
    slow = "import os, time\ntime.sleep(5 * int(os.environ['RANK']))\n"
    score = "def score(completions, **_):\n    return [float(i % 2) for i, _ in enumerate(completions)]\n"
    (tmp_path / "slow.py").write_text(slow + score)
    fields = {"accelerate_config": ROOT / "configs/accelerate/cpu_2_processes.yaml", "config": SMOKE}
    fields |= {"model_name_or_path": tiny_folder, "dataset_name": problems, "output_dir": tmp_path / "out"}
    fields |= {"reward_funcs": "slow.score", "dry_run": "true"}
    done = run("-m", "steer_trl.cli", "train", *flags(fields), folder=tmp_path, PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert "A dry run: " in done.stdout and not (tmp_path / "out").exists()


@pytest.mark.usefixtures("default_port")
def test_the_command_starts_the_processes_of_an_engine(tmp_path, tiny_folder, problems):
    engine = ROOT / "configs/accelerate/cpu_2_processes.yaml"
    fields = {"accelerate_config": engine, "config": SMOKE, "model_name_or_path": tiny_folder}
    fields |= {"dataset_name": problems, "output_dir": tmp_path / "out", "log_tokens": 2}
    fields |= {"steps_per_generation": 4}  # two optimizer steps per rollout, shuffled
    run("-m", "steer_trl.cli", "train", *flags(fields), folder=tmp_path, launched=True)
    assert (tmp_path / "out/checkpoint-2/rng_state_1.pth").exists()  # there were two
    lines = list(run_files.lines(tmp_path / "out/_logs/tokens/step-00000001.jsonl"))
    places = sorted((line["group"], line["completion"]) for line in lines)
    assert places == [(group, completion) for group in range(2) for completion in range(4)]
    assert {line["step"] for line in lines} <= {1, 2}
    assert len({(line["group"], line["prompt"]) for line in lines}) == 2
    assert [entry["step"] for entry in run_files.lines(tmp_path / "out/_logs/metrics.jsonl")] == [1, 2, 2]
    card = (tmp_path / "out/README.md").read_text()
    assert "Trained on 2 processes." in card
    (again,) = [yaml.safe_load(block.split("```")[0]) for block in card.split("```yaml\n")[1:]]
    # A card is published, so it has no path of this machine.
    assert (again["model_name_or_path"], again["dataset_name"]) == (tiny_folder.name, [problems.name])
    assert again["instruction"] == INSTRUCTIONS["boxed"] and f"````text\n{INSTRUCTIONS['boxed']}\n````" in card
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(again | {"output_dir": str(tmp_path / "again")}))
    _, args, _ = parse(["--config", str(tmp_path / "again.yaml"), "--use_cpu", "true", "--bf16", "false"])
    assert (args.advantage_shaping, args.max_steps) == (["steer", "stare"], 2)


def test_two_processes_evaluate_and_keep_the_best_checkpoint(tmp_path, tiny_folder, problems):
    fields = {"max_steps": 6, "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2, "learning_rate": 0.01}
    fields |= {"eval_benchmarks": f"sums={problems}@4", "per_device_eval_batch_size": 8}
    fields |= {"metric_for_best_model": "sums_num_tokens"}  # a random model gets nothing right
    train(tmp_path, *flags(fields | {"load_best_model_at_end": "true"}), engine="cpu_2_processes")
    assert (tmp_path / "out/checkpoint-6/rng_state_1.pth").exists()  # there were two
    state = json.loads((tmp_path / "out/checkpoint-6/trainer_state.json").read_text())
    measured = {log["step"]: log["eval_sums_num_tokens"] for log in state["log_history"] if "eval_sums_avg@4" in log}
    assert list(measured) == [2, 4, 6]
    best = max(measured, key=lambda step: measured[step])
    assert state["best_model_checkpoint"].endswith(f"checkpoint-{best}")
    final, kept = (AutoModelForCausalLM.from_pretrained(tmp_path / name) for name in ("out", f"out/checkpoint-{best}"))
    assert torch.equal(final.lm_head.weight, kept.lm_head.weight)
    for step in measured:
        lines = (tmp_path / f"out/benchmarks/step-{step}/completions.jsonl").read_text().splitlines()
        assert len(lines) == 32


def test_a_custom_method_works_through_a_recipe(tmp_path, tiny_folder, problems):
    _, section = (ROOT / "docs/methods.md").read_text().split("## A custom method")
    ((_, code), (_, lines)) = re.findall(r"```(python|yaml)\n(.*?)```", section, re.DOTALL)
    assert len(code.splitlines()) < 20
    (tmp_path / "my_shaper.py").write_text(code)
    (tmp_path / "recipe.yaml").write_text(f"extends: {SMOKE}\n{lines}")
    train(tmp_path, recipe=tmp_path / "recipe.yaml", PYTHONPATH=str(tmp_path))
    log = json.loads((tmp_path / "out/checkpoint-2/trainer_state.json").read_text())["log_history"]
    assert log[0]["shaping/weight_min"] == 0.5 and 0.5 < log[0]["shaping/weight_mean"] < 1
