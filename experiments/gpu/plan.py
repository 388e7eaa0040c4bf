"""The plan of the runs: three settings of the trainer, each with two seeds, on a published model.

All runs share the recipe: data, batches, learning rate, dynamic sampling, and the number of generated tokens. So two
runs of a seed differ in the setting alone. No setting has a learning rate of its own, although each may have another
best one; this comparison does not answer that.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.gpu import tiny
from experiments.lab import Experiment, Task
from steer_trl.data import load_math_dataset
from steer_trl.evaluation.backends import has_vllm

ARMS: dict[str, dict[str, Any]] = {
    "GRPO": {"advantage_shaping": "none"},
    "F-GRPO": {"advantage_shaping": "f_grpo"},
    "held": {"hold_entropy": 0.65, "advantage_shaping": "f_grpo"},
}
"""The settings by the name of their arm. With the recipe's dynamic sampling, the last one is the advised setting."""
BASELINE = "GRPO"
SEEDS = (1, 2)
PROGRAM = ("-m", "experiments.gpu.program")
FOLDER = Path(__file__).parent
NO_EVALUATION = dict.fromkeys(("eval_benchmarks", "eval_samplings", "eval_judge"))
"""The runs are evaluated at their end only."""
NUM_VALIDATION = 200


@dataclass(frozen=True)
class Run:
    """A training run: the name of its arm, and its seed."""

    arm: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run and of its folder."""
        return f"{self.arm}, seed {self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that are added to the recipe."""
        return ARMS[self.arm] | {"seed": self.seed}


def runs_of(arms: list[str], seeds: list[int]) -> list[Run]:
    """Return the runs in their order, all arms of a seed before those of the next one."""
    return [Run(arm, seed) for seed in seeds for arm in arms]


def gsm8k(split: str) -> list[dict[str, Any]]:
    """Return the problems of a split of GSM8K. Those for validation are the last ones of the training problems."""
    dataset = load_math_dataset("gsm8k" if split == "test" else "gsm8k-train", instruction="{problem}")
    rows = [
        {"id": f"{split}-{place}", "problem": row["prompt"][-1]["content"], "solution": row["solution"]}
        for place, row in enumerate(dataset)
    ]
    return {"test": rows, "train": rows[:-NUM_VALIDATION], "validation": rows[-NUM_VALIDATION:]}[split]


GSM8K = Task("gsm8k", gsm8k, judge="math", recipe=str(FOLDER / "recipe.yaml"), start="Qwen/Qwen2.5-0.5B-Instruct")


def make_experiment(output_dir: Path, is_tiny: bool) -> Experiment:
    """Return the experiment on a GPU, or its trial on a CPU with a model of its own, and with vLLM if it is there."""
    if not is_tiny:
        evaluation = {"backend": "vllm", "dtype": "bfloat16", "max_model_length": 1024, "gpu_memory_utilization": 0.8}
        return Experiment(
            GSM8K, output_dir, num_problems=500, samplings=["t1"], evaluation=evaluation, program=PROGRAM
        )
    start = tiny.make_model(output_dir / "model")
    task = Task("sums", tiny.problems, judge="math", recipe=str(FOLDER / "tiny.yaml"), start=str(start))
    evaluation = {"backend": "vllm", "dtype": "float32", "max_model_length": 512, "gpu_memory_utilization": 0.3}
    return Experiment(
        task,
        output_dir,
        num_problems=8,
        samplings=["t1"],
        evaluation=evaluation if has_vllm() else {},
        program=PROGRAM,
    )


def settings_of(run: Run, is_tiny: bool) -> dict[str, Any]:
    """Return all settings that are added to the recipe for a run."""
    without_vllm = {
        "use_vllm": False,
        "vllm_importance_sampling_correction": False,
        "vllm_max_model_length": None,
    }
    return NO_EVALUATION | (without_vllm if is_tiny and not has_vllm() else {}) | run.settings
