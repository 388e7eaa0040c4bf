"""STEER's 7B recipe starts from its own YAML with colocated vLLM; only sizes, and sleep mode, are overridden."""

import json

import numpy as np
from support import ROOT
from support.processes import flags

from steer_trl.cli.train import main


def test_starts_from_its_own_yaml(model, problems, tmp_path):
    sizes = {
        "model_name_or_path": model,
        "dtype": "float32",
        "dataset_name": problems,
        "output_dir": tmp_path / "out",
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 4,
        "per_device_eval_batch_size": 64,
        "max_completion_length": 8,
        "vllm_max_model_length": 512,
        "max_steps": 2,
        "save_steps": 2,
        "eval_steps": 2,
        "vllm_enable_sleep_mode": "false",  # there is no GPU's memory to leave
        "use_cpu": "true",
        "bf16": "false",
    }
    recipe = str(ROOT / "configs/recipes/steer_qwen2.5_math_7b.yaml")
    main(["--config", recipe, *flags(sizes), "--eval_benchmarks", f"aime24={problems}@32"])
    log = json.loads((tmp_path / "out/checkpoint-2/trainer_state.json").read_text())["log_history"]
    trained = [entry for entry in log if "shaping/weight_mean" in entry]
    assert [entry["step"] for entry in trained] == [1, 2] and all(np.isfinite(entry["entropy"]) for entry in trained)
    assert any("eval_aime24_avg@32" in entry for entry in log)
