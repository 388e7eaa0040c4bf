"""Every engine trains as a single process does, on the same completions, from the configuration that is shipped."""

import json

import numpy as np
import pytest
import torch
from support import ROOT
from support.processes import engine_on_cpu, flags, run
from transformers import AutoModelForCausalLM

from steer_trl import runlog
from steer_trl.countdown.model import supervised_start
from steer_trl.countdown.task import problems

ENGINES = {"ddp": "MULTI_CPU x 2", "zero2": "DEEPSPEED 2 x 2", "zero3": "DEEPSPEED 3 x 2", "fsdp2": "FSDP x 2"}
CASES = {
    "steer": {"advantage_shaping": "steer", "steer_lambda_min": 0.3},
    "stare": {
        "advantage_shaping": "stare",
        "stare_variant": "C2",
        "stare_amplify": 2.0,
        "stare_attenuate": 0.5,
        "stare_target_entropy": 100.0,
    },
    "exact": {"advantage_shaping": ["steer", "entropy_change"], "steer_form": "exact", "steer_lambda_min": 0.3},
    "exact_lora": {"advantage_shaping": ["steer", "stare"], "steer_form": "exact", "stare_target_entropy": 100.0},
    "lora": {"advantage_shaping": ["steer", "stare"], "steer_lambda_min": 0.3, "stare_target_entropy": 100.0},
}


def cases(size, skip_padding=True):
    sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 2, "learning_rate": 0.1}
    sizes |= {"skip_padding": skip_padding}
    return [{"fields": fields | sizes, "steps": 3, "lora": name.endswith("lora")} for name, fields in CASES.items()]


@pytest.fixture(scope="module")
def alone(run_cases):
    return dict(zip(CASES, run_cases(cases(8, skip_padding=False)), strict=True))


@pytest.fixture(scope="module", params=ENGINES)
def configuration(request, tmp_path_factory):
    """Name and file of a shipped configuration, with two processes on CPU in the place of its GPUs."""
    return request.param, engine_on_cpu(request.param, tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def engine(configuration, run_cases):
    name, path = configuration
    results = dict(zip(CASES, run_cases(cases(4), path, launched=True), strict=True))
    assert {result["engine"] for result in results.values()} == {ENGINES[name]}
    return results


@pytest.mark.parametrize("case", CASES)
def test_trains_as_a_single_process_does(alone, engine, case):
    one, two = alone[case], engine[case]
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-4, abs=1e-6)
    assert two["weights"].keys() == one["weights"].keys()
    for key, weights in one["weights"].items():
        np.testing.assert_allclose(two["weights"][key], weights, atol=1e-4)
    for name, update in one["update"].items():
        np.testing.assert_allclose(two["update"][name], update, rtol=1e-3, atol=2e-5, err_msg=name)
    assert any(np.abs(update).max() > 1e-4 for update in one["update"].values())


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    supervised_start(folder, 20)
    return folder


def test_trains_the_quickstarts_task(configuration, start, tmp_path):
    """Generates, is rewarded, learns, is evaluated by every rank, and leaves a whole model behind."""
    for split in ("train", "validation"):
        rows = problems(split)[: None if split == "train" else 20]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = {"config": "countdown", "model_name_or_path": start, "dataset_name": "train.jsonl", "output_dir": "out"}
    # In the evaluation 24 samples on the one rank, 16 on the other.
    fields |= {"eval_benchmarks": "validation=validation.jsonl@2", "per_device_eval_batch_size": 24, "max_steps": 2}
    fields |= {"per_device_train_batch_size": 8, "entropy_coef": 0.01}  # so young a model gets nothing right
    fields |= {"eval_steps": 2, "stare_variant": "C2", "save_strategy": "no"}
    script, methods = ROOT / "tests/distributed/train_run.py", ["--advantage_shaping", "steer", "stare"]
    run(script, *flags(fields), *methods, engine=configuration[1], folder=tmp_path)
    log = list(runlog.lines(tmp_path / "out/_logs/metrics.jsonl"))
    entropies = [entry["entropy"] for entry in log if "entropy" in entry]
    assert len(entropies) == 2 and np.isfinite(entropies).all()
    for sampling in ("papers", "greedy", "t1"):
        assert (tmp_path / f"out/benchmarks/step-2/{sampling}/summary.json").exists()
    before, after = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in (start, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
