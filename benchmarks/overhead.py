"""Time and peak memory of an optimizer step, as ratios to TRL's GRPOTrainer in the same run.

    make benchmark

Completions are given instead of generated, so the whole step is what the methods can slow down; in a real run
generation comes on top and the ratios are closer to 1. Every measurement is a process of its own and the methods take
turns. Of each step (the first of a process left out) the fastest round counts, since what slows a shared machine down
is not the method; the mean over steps is reported.

Memory is what torch's allocator held at most: on CPU as torch's profiler counts it, in one more process of two steps,
since the resident size of a process tells the C library's habits rather than the methods'.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from torch.profiler import ProfilerActivity, profile
from transformers import PrinterCallback
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer

STARE = {"advantage_shaping": "stare", "stare_variant": "C2", "stare_target_entropy": 1e9}  # the gate stays open
STEER = {"advantage_shaping": "steer"}
MICRO, EXACT = {"shaping_scope": "micro_batch"}, {"shaping_scope": "exact_step"}
METHODS: dict[str, dict[str, Any] | None] = {
    "GRPOTrainer": None,
    "none": {"advantage_shaping": "none"},
    "steer": STEER,
    "steer, micro_batch": STEER | MICRO,
    "steer, exact_step": STEER | EXACT,
    "stare": STARE,
    "stare, micro_batch": STARE | MICRO,
    "stare, exact_step": STARE | EXACT,
}
ACCUMULATED = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
SCHEDULES = {
    "one micro-batch a step, one step a rollout": {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1},
    "two micro-batches a step, one step a rollout": ACCUMULATED,
    "two micro-batches a step, four steps a rollout": ACCUMULATED | {"steps_per_generation": 8},
}
# Vocabulary, tokens of a completion, and a model whose head costs about as much of a step as a real one's.
SHAPES = {
    "8k tokens": (8_192, 128, {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3}),
    "150k tokens": (151_936, 32, {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2}),
}
PROMPTS = 64


def given_completions(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
    """Random completions, all as long as they may be."""
    generator = torch.Generator().manual_seed(trainer.state.global_step)
    completions = torch.randint(
        4, 260, (len(prompts), trainer.args.max_completion_length), generator=generator
    ).tolist()
    return {
        "prompt_ids": trainer.processing_class(prompts)["input_ids"],
        "completion_ids": completions,
        "logprobs": None,
    }


def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """Anything that differs within a group."""
    return [float(ids[0] % 2) for ids in completion_ids]


def trainer_of(shape: str, schedule: str, method: str, steps: int, folder: str) -> GRPOTrainer:
    """Make the trainer of one measurement."""
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    settings, tokenizer = METHODS[method], tiny_tokenizer()
    vocabulary, tokens, sizes = SHAPES[shape]
    trainer_class, config_class = (
        (GRPOTrainer, GRPOConfig) if settings is None else (SteerGRPOTrainer, SteerGRPOConfig)
    )
    args = config_class(
        output_dir=folder,
        num_generations=4,
        max_completion_length=tokens,
        max_steps=steps,
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
        model=tiny_qwen2(tokenizer, vocab_size=vocabulary, **sizes),
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["What is one and one?"] * PROMPTS}),
        processing_class=tokenizer,
        rollout_func=given_completions,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def seconds_of_steps(*case: Any) -> list[float]:
    """Seconds of each optimizer step."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(*case, folder)
        trainer.train()
    return [entry["step_time"] for entry in trainer.state.log_history if "step_time" in entry]


def peak_mebibytes(*case: Any) -> float:
    """The most that torch's allocator held during the training, model and optimizer included."""
    with tempfile.TemporaryDirectory() as folder:
        if torch.cuda.is_available():
            trainer_of(*case, folder).train()
            return torch.cuda.max_memory_allocated() / 2**20
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            trainer_of(*case, folder).train()
        trace = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    return max(event["args"]["Total Allocated"] for event in events if event["name"] == "[memory]") / 2**20


def in_a_process(measure: Callable[..., Any], *case: Any) -> Any:
    """Call `measure` in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, *case).result()


def table(shape: str, schedule: str, rounds: int, steps: int) -> None:
    """Measure every method in turns and print one table."""
    several = "steps_per_generation" in SCHEDULES[schedule]
    methods = [m for m in METHODS if several or "exact" not in m]  # exact_step differs after the first step only
    memory = {method: in_a_process(peak_mebibytes, shape, schedule, method, 2) for method in methods}
    seconds: dict[str, list[list[float]]] = {method: [] for method in methods}
    for _ in range(rounds):
        for method in methods:
            seconds[method].append(in_a_process(seconds_of_steps, shape, schedule, method, steps)[1:])
    # The mean, since with several steps a rollout only some of them score it.
    means = {method: fmean(map(min, zip(*measured, strict=True))) for method, measured in seconds.items()}
    base_seconds, base_memory = means["GRPOTrainer"], memory["GRPOTrainer"]
    print(f"\n| {shape}, {schedule} | s a step | ratio | MiB | ratio |\n|---|---|---|---|---|")
    for method in methods:
        mean, peak = means[method], memory[method]
        ratios = mean / base_seconds, peak / base_memory
        print(f"| {method} | {mean:.3f} | {ratios[0]:.2f} | {peak:.0f} | {ratios[1]:.3f} |", flush=True)


def main() -> None:
    """Print one table for each vocabulary and schedule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=9, help="optimizer steps of each process; one is left out")
    parser.add_argument("--shape", choices=SHAPES, help="one vocabulary only")
    parser.add_argument("--schedule", choices=SCHEDULES, help="one schedule only")
    arguments = parser.parse_args()
    # The C library gives freed memory back and asks for it again, and the page faults drown every difference.
    os.environ |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
    for shape in [arguments.shape] if arguments.shape else SHAPES:
        for schedule in [arguments.schedule] if arguments.schedule else SCHEDULES:
            table(shape, schedule, arguments.rounds, arguments.steps)


if __name__ == "__main__":
    main()
