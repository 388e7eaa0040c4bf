"""Time and peak memory of an optimizer step, as ratios to TRL's GRPOTrainer in the same run.

    make benchmark

Completions are given instead of generated, so the whole step is what the methods can slow down; in a real run
generation comes on top and the ratios are closer to 1. Every measurement is a process of its own and the methods take
turns. Of each step (the first of a process left out) the fastest round counts, since what slows a shared machine down
is not the method; the mean over steps is reported.
"""

import argparse
import os
import resource
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer

OPEN = {"advantage_shaping": "stare", "stare_variant": "C2", "stare_target_entropy": 1e9}
METHODS: dict[str, dict[str, Any] | None] = {
    "GRPOTrainer": None,
    "none": {"advantage_shaping": "none"},
    "steer": {"advantage_shaping": "steer"},
    "stare": OPEN,
    "steer + stare": OPEN | {"advantage_shaping": ["steer", "stare"]},
}
SCHEDULES = {"one step per rollout": {}, "four steps per rollout": {"steps_per_generation": 8}}
PROMPTS, TOKENS = 64, 128


def given_completions(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
    """Random completions of `TOKENS` tokens each."""
    generator = torch.Generator().manual_seed(trainer.state.global_step)
    completions = torch.randint(4, 260, (len(prompts), TOKENS), generator=generator).tolist()
    return {
        "prompt_ids": trainer.processing_class(prompts)["input_ids"],
        "completion_ids": completions,
        "logprobs": None,
    }


def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """Anything that differs within a group."""
    return [float(ids[0] % 2) for ids in completion_ids]


def measure(method: str, schedule: str, steps: int) -> tuple[list[float], float]:
    """Seconds of each optimizer step, and the peak memory of the process in MiB."""
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    settings, tokenizer = METHODS[method], tiny_tokenizer()
    trainer_class, config_class = (
        (GRPOTrainer, GRPOConfig) if settings is None else (SteerGRPOTrainer, SteerGRPOConfig)
    )
    with tempfile.TemporaryDirectory() as folder:
        args = config_class(
            output_dir=folder,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            num_generations=4,
            max_completion_length=TOKENS,
            max_steps=steps,
            gradient_checkpointing=False,
            use_cpu=not torch.cuda.is_available(),
            bf16=torch.cuda.is_available(),
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **SCHEDULES[schedule],
            **(settings or {}),
        )
        trainer = trainer_class(
            model=tiny_qwen2(tokenizer, hidden_size=128, intermediate_size=384, num_hidden_layers=3, vocab_size=8192),
            reward_funcs=reward,
            args=args,
            train_dataset=Dataset.from_dict({"prompt": ["What is one and one?"] * PROMPTS}),
            processing_class=tokenizer,
            rollout_func=given_completions,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    seconds = [entry["step_time"] for entry in trainer.state.log_history if "step_time" in entry]
    if torch.cuda.is_available():
        return seconds, torch.cuda.max_memory_allocated() / 2**20
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    """Measure every method under every schedule and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=9, help="optimizer steps of each process")
    arguments = parser.parse_args()
    # The C library gives freed memory back and asks for it again, and the page faults drown every difference.
    os.environ |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
    context = get_context("spawn")
    for schedule in SCHEDULES:
        seconds: dict[str, list[list[float]]] = {method: [] for method in METHODS}
        memory: dict[str, float] = dict.fromkeys(METHODS, 0.0)
        for _ in range(arguments.rounds):
            for method in METHODS:
                with ProcessPoolExecutor(1, context) as pool:
                    times, peak = pool.submit(measure, method, schedule, arguments.steps).result()
                seconds[method].append(times[1:])
                memory[method] = max(memory[method], peak)
        # The mean, since with several steps per rollout only some of them score it.
        means = {method: fmean(map(min, zip(*rounds, strict=True))) for method, rounds in seconds.items()}
        base_seconds, base_memory = means["GRPOTrainer"], memory["GRPOTrainer"]
        print(f"\n{schedule}\n{'':16}{'s/step':>8}{'ratio':>8}{'MiB':>8}{'ratio':>8}")
        for method in METHODS:
            mean, peak = means[method], memory[method]
            print(f"{method:16}{mean:8.3f}{mean / base_seconds:8.3f}{peak:8.0f}{peak / base_memory:8.3f}")


if __name__ == "__main__":
    main()
