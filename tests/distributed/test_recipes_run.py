"""One recipe of each kind trains here from its own YAML under the engine it names; only sizes are overridden."""

import json
import math

import pytest
from peft import PeftModel
from support import ROOT
from support.processes import engine_on_cpu, flags, run
from support.runs import save_tiny_model
from transformers import AutoModelForCausalLM

# Kind: recipe, engine, tokens of a completion, what the engine calls itself.
KINDS = {
    "full": ("steer_qwen2.5_math_1.5b", "zero2", 8, "DEEPSPEED x 2"),
    "lora": ("recommended_lora_24gb", "single_gpu", 8, "NO x 1"),
    "long": ("stare_long_cot_r1_distill_1.5b", "ddp", 256, "MULTI_CPU x 2"),
    "zero3": ("steer_qwen2.5_math_7b", "zero3", 8, "DEEPSPEED x 2"),
    "fsdp2": ("stare_short_cot_qwen2.5_math_7b", "fsdp2", 8, "FSDP x 2"),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    paths = [tmp_path_factory.mktemp("data") / f"{count}.jsonl" for count in (8, 2)]
    for path in paths:
        rows = [{"problem": f"{i}+1=", "answer": str(i + 1)} for i in range(int(path.stem))]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_a_recipe_trains_from_its_own_yaml(kind, tiny, problems, tmp_path):
    recipe, engine, tokens, expected = KINDS[kind]
    benchmark, samples = ("math500", 4) if kind == "lora" else ("aime24", 32)
    paths = {"model_name_or_path": tiny, "dataset_name": problems[0], "output_dir": tmp_path / "out"}
    sizes = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "per_device_eval_batch_size": 32}
    sizes |= {"max_completion_length": tokens, "max_steps": 2, "save_steps": 2, "eval_steps": 2}
    sizes |= {"dtype": "float32", "use_vllm": "false", "use_cpu": "true", "bf16": "false"}
    if recipe.startswith("steer"):
        sizes["steps_per_generation"] = 4
    else:
        sizes |= {"steps_per_generation": 2, "dynamic_sampling_max_attempts": 1}  # nothing is correct here
    names = ["aime24", "aime25"] if recipe.startswith("stare") and kind != "lora" else [benchmark]
    benchmarks = ["--eval_benchmarks", *(f"{name}={problems[1]}@{samples}" for name in names)]
    script = [ROOT / "tests/distributed/recipe_run.py", "--config", ROOT / f"configs/recipes/{recipe}.yaml"]
    done = run(*script, *flags(paths | sizes), *benchmarks, engine=engine_on_cpu(engine, tmp_path), folder=tmp_path)
    assert f"engine: {expected}" in done.stdout.replace("DistributedType.", "")

    state = json.loads((tmp_path / "out/checkpoint-2/trainer_state.json").read_text())
    trained = [log for log in state["log_history"] if "grad_norm" in log]
    assert len(trained) == 2
    for log in trained:
        assert math.isfinite(log["entropy"]) and "shaping/weight_mean" in log
    assert tokens / 2 < trained[0]["completions/max_length"] <= tokens  # a random model seldom ends
    assert any(f"eval_{benchmark}_avg@{samples}" in log for log in state["log_history"])
    model = AutoModelForCausalLM.from_pretrained(tiny)
    if kind == "lora":
        PeftModel.from_pretrained(model, tmp_path / "out")
    else:
        saved = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
        assert saved.keys() == model.state_dict().keys()
