"""Makes short runs of the laptop task, one for each arm and seed, to see how single settings change the entropy.

    python -m experiments.claims.short_runs --seeds 0 1 2

A run has 120 optimizer steps of 128 completions, takes about a minute on one core, and begins with a model of 650
supervised steps. A finished run is a file in `--output_dir` and is not repeated. The file `--published` has all runs.
"""

import argparse
import json
import logging
import re
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from datasets import Dataset
from tqdm import tqdm
from transformers import AutoTokenizer, GenerationConfig

from experiments.claims.arms import ARMS
from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.puzzle import MAX_COMPLETION_TOKENS, countdown_reward, is_correct, problems
from steer_trl.demo.start_model import supervised_start
from steer_trl.evaluation import pass_at_k

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples/methods"))  # for the methods that arms.py names
STEPS, SUPERVISED_STEPS = 120, 650
HELD_OUT, SAMPLES = 400, 16
TASK: dict[str, Any] = {
    "advantage_shaping": "none",
    "per_device_train_batch_size": 128,
    "steps_per_generation": 4,
    "num_generations": 8,
    "max_completion_length": MAX_COMPLETION_TOKENS,
    "max_steps": STEPS,
    "learning_rate": 2.5e-4,
    "lr_scheduler_type": "constant",
    "epsilon_high": 0.28,
    "gradient_checkpointing": False,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "run_log": False,
    "alarms": False,
    "terminal_log": "dict",
    "use_cpu": True,
    "bf16": False,
}
LOGGED = ("entropy", "reward", "grad_norm", "shaping/relative_change", "stare/amplify", "stare/gate")
CLIPPED = ("clip/lower_unlikely", "clip/lower_likely", "clip/upper_unlikely", "clip/upper_likely")


def file_of(folder: Path, arm: str, seed: int) -> Path:
    """Return the path of the file with a run's result."""
    return folder / f"{re.sub(r'[^a-z0-9.]+', '_', arm.lower())}-seed{seed}.json"


def run(start: Path, folder: Path, arm: str, seed: int) -> dict[str, Any]:
    """Train one arm, and return its log by rollout and the share of problems that the trained model solves."""
    held_out = [row["prompt"] for row in problems("validation")[:HELD_OUT]]
    args = SteerGRPOConfig(output_dir=str(folder / "trainer"), **TASK | ARMS[arm] | {"seed": seed})
    trainer = SteerGRPOTrainer(
        model=str(start),
        reward_funcs=countdown_reward,
        args=args,
        train_dataset=Dataset.from_list(problems("train")),
    )
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "entropy" in entry]
    # Undefined values are logged as None.
    entries = [{key: value for key, value in entry.items() if value is not None} for entry in history]
    by_rollout = [entries[i : i + 4] for i in range(0, len(entries), 4)]
    columns = {
        key: [round(mean(e[key] for e in four if key in e), 5) for four in by_rollout]
        for key in LOGGED
        if all(any(key in e for e in four) for four in by_rollout)
    }
    clipped = {key: mean(e[key] for e in entries if key in e) for key in CLIPPED if any(key in e for e in entries)}
    result = {"arm": arm, "seed": seed, "settings": ARMS[arm], "rollouts": columns, "clipped": clipped}
    return result | {"solved": solved(trainer.model, start, held_out)}


def solved(model: Any, folder: Path, prompts: list[str]) -> dict[str, float]:
    """Return accuracy, pass@16 and different correct answers of 16 samples at temperature 1, and greedy accuracy."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    tokens["max_new_tokens"] = MAX_COMPLETION_TOKENS

    def correct(**drawn: Any) -> list[list[str]]:
        with torch.no_grad():
            torch.manual_seed(0)
            ids = model.generate(**inputs, generation_config=GenerationConfig(**tokens, **drawn))
        texts = tokenizer.batch_decode(ids[:, inputs["input_ids"].size(1) :], skip_special_tokens=True)
        each = len(texts) // len(prompts)
        return [
            [text for text in texts[i * each : (i + 1) * each] if is_correct(prompt, text)]
            for i, prompt in enumerate(prompts)
        ]

    model.eval()
    sampled = correct(do_sample=True, num_return_sequences=SAMPLES, top_k=0)
    return {
        "accuracy": mean(len(texts) / SAMPLES for texts in sampled),
        "pass@16": mean(pass_at_k(SAMPLES, len(texts), SAMPLES) for texts in sampled),
        "distinct": mean(len(set(texts)) for texts in sampled),
        "greedy": mean(len(texts) for texts in correct(do_sample=False)),
    }


def main() -> None:
    """Make the start model and the missing runs, and write all finished runs to one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/claims")
    parser.add_argument("--published", type=Path, default=ROOT / "experiments/results/claims/short_runs.json")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    start = given.output_dir / "start"
    if not (start / "model.safetensors").exists():
        supervised_start(start, SUPERVISED_STEPS)
    for seed, arm in tqdm([(seed, arm) for seed in given.seeds for arm in given.arms]):
        path = file_of(given.output_dir, arm, seed)
        if not path.exists():
            result = run(start, given.output_dir, arm, seed)
            path.with_suffix(".partial").write_text(json.dumps(result, separators=(",", ":")))
            path.with_suffix(".partial").rename(path)
        results = [json.loads(file.read_text()) for file in sorted(given.output_dir.glob("*-seed*.json"))]
        given.published.parent.mkdir(parents=True, exist_ok=True)
        given.published.write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in results) + "\n]\n")


if __name__ == "__main__":
    main()
