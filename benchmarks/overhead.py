"""Measures the time and peak memory of a training step, as ratios to TRL's GRPOTrainer.

    make benchmark

Completions are given instead of generated, so that only work which a method can slow down is timed. In a real run
generation is added, and the ratios are closer to 1. The optimizer's update is the same for all and is left out.

Each method is measured in a pair of processes, one with the method and one with GRPOTrainer. They take turns step by
step, so that whatever slows down a shared machine slows down both. The ratio is the median over turns. It varies by a
few per cent with the placement of a process's memory. Therefore several pairs are started, and the lowest and the
highest of their medians show how far the ratio can be trusted.

Memory is the most that torch's allocator held. On CPU, torch's profiler counts it in a further process of two steps,
because the resident size of a process depends more on the C library than on the method.
"""

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from datasets import Dataset
from torch.profiler import ProfilerActivity, profile
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.shaping import Shaper, TokenBatch

STARE = {"advantage_shaping": "stare", "stare_variant": "C2", "stare_target_entropy": 1e9}  # the gate stays open
STEER = {"advantage_shaping": "steer"}
MICRO, EXACT = {"shaping_scope": "micro_batch"}, {"shaping_scope": "exact_step"}
METHODS: dict[str, dict[str, Any] | None] = {
    "GRPOTrainer": None,
    "none": {"advantage_shaping": "none"},
    "steer": STEER,
    "steer, micro_batch": STEER | MICRO,
    "steer, exact_step": STEER | EXACT,
    "steer, exact change": STEER | {"steer_form": "exact"},
    "exact change, unused": {"advantage_shaping": "overhead.ReadsTheExactChange"},
    "stare": STARE,
    "stare, micro_batch": STARE | MICRO,
    "stare, exact_step": STARE | EXACT,
    "dynamic sampling": {"advantage_shaping": "none", "dynamic_sampling": "resample"},
}


class ReadsTheExactChange(Shaper):
    """Computes the exact entropy change of every trained token, but does not use it."""

    reads = ("sensitivities",)

    def weights(self, batch: TokenBatch, measure: Any) -> None:
        """Return no weights."""


SCHEDULES = {
    "one micro-batch a step": {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1},
    "two micro-batches a step": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
    "eight micro-batches a step": {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8},
    "two micro-batches a step, four steps a rollout": {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 8,
    },
}
# Size of the vocabulary, tokens of a completion, and the model. With a head of 150k rows, nearly all time of a narrow
# model would be the softmax, so its model is wider.
SHAPES = {
    "8k tokens": (8_192, 128, {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3}),
    "150k tokens": (151_936, 32, {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4}),
}
# Shapes that are measured only if --shape names them: a tiny one for trials, and one whose head has 28 % of the
# multiplications, as in Qwen2.5-0.5B, instead of 90 %.
NAMED = {
    "tiny": (1_024, 16, {}),
    "150k tokens, Qwen2.5-0.5B's share": (
        *SHAPES["150k tokens"][:2],
        SHAPES["150k tokens"][2] | {"intermediate_size": 33_000},
    ),
}
QWEN = {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12}
if torch.cuda.is_available():
    SHAPES["Qwen2.5-1.5B"] = (151_936, 512, QWEN)
PROMPTS = 64


def given_completions(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
    """Return random completions of the maximum length, instead of generating them."""
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
    """Return rewards that differ within a group."""
    return [float(i % 2) for i in range(len(completion_ids))]


def trainer_of(
    shape: str,
    schedule: str,
    method: str,
    steps: int,
    folder: str,
    on_cpu: bool = not torch.cuda.is_available(),
    bf16: bool | None = None,
) -> GRPOTrainer:
    """Make the trainer for one measurement."""
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    settings, tokenizer = METHODS[method], tiny_tokenizer()
    vocabulary, tokens, sizes = (SHAPES | NAMED)[shape]
    trainer_class, config_class = (
        (GRPOTrainer, GRPOConfig) if settings is None else (SteerGRPOTrainer, SteerGRPOConfig)
    )
    args = config_class(
        output_dir=folder,
        num_generations=4,
        max_completion_length=tokens,
        max_steps=steps,
        use_cpu=on_cpu,
        bf16=not on_cpu if bf16 is None else bf16,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **SCHEDULES[schedule],
        **(settings or {}),
    )
    # A large random model is made within a second on the GPU, and within a minute on the CPU.
    with torch.device("cpu" if on_cpu else "cuda"):
        model = tiny_qwen2(tokenizer, vocab_size=vocabulary, **sizes)
    trainer = trainer_class(
        model=model,
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["1+1="] * PROMPTS}),
        processing_class=tokenizer,
        rollout_func=given_completions,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


class TakesTurns(TrainerCallback):
    """Waits for its turn before each optimizer step, and times the step until the optimizer's update."""

    def __init__(self, turn: Any, next_turn: Any) -> None:
        self.turn, self.next_turn = turn, next_turn
        self.seconds: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.turn.acquire()
        self.started = now()

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.seconds.append(now() - self.started)

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.next_turn.release()


def now() -> float:
    """Return a time in seconds, after the device has finished all its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds_of_steps(shape: str, schedule: str, method: str, steps: int, *turns: Any) -> list[float]:
    """Train, and return the seconds of each step up to the optimizer's update."""
    callback = TakesTurns(*turns)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(shape, schedule, method, steps, folder)
        trainer.add_callback(callback)
        trainer.train()
    return callback.seconds


def seconds_of_pair(shape: str, schedule: str, method: str, steps: int) -> list[tuple[float, float]]:
    """Return the seconds per step of GRPOTrainer and of the method, for each rollout except the first.

    The rollouts returned have at least `steps` optimizer steps.
    """
    length = steps_of_rollout(schedule)
    steps = (math.ceil(steps / length) + 1) * length
    with get_context("fork").Manager() as manager, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        ours, theirs = manager.Semaphore(0), manager.Semaphore(1)
        pair = [
            pool.submit(seconds_of_steps, shape, schedule, name, steps, *turns)
            for name, turns in [("GRPOTrainer", (theirs, ours)), (method, (ours, theirs))]
        ]
        seconds = [future.result() for future in pair]
    means = [[fmean(s[i : i + length]) for i in range(length, steps, length)] for s in seconds]
    return list(zip(*means, strict=True))


def steps_of_rollout(schedule: str) -> int:
    """Return the number of optimizer steps for each rollout."""
    settings = SCHEDULES[schedule]
    return settings.get("steps_per_generation", 0) // settings["gradient_accumulation_steps"] or 1


def peak_mebibytes(*case: Any) -> float:
    """Return the most memory that torch's allocator held during training, model and optimizer included, in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        if torch.cuda.is_available():
            trainer_of(*case, folder).train()
            return torch.cuda.max_memory_allocated() / 2**20
        return max(at["Total Allocated"] for at in allocations(lambda: trainer_of(*case, folder).train())) / 2**20


def allocations(call: Callable[[], Any]) -> list[dict[str, Any]]:
    """Return the events of torch's CPU allocator during the call, in order.

    Each has the `Bytes` that were allocated or freed, and the `Total Allocated` afterwards.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(trace))
        events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["name"] == "[memory]"]
    return [event["args"] for event in sorted(events, key=lambda event: event["ts"])]


def in_a_process(measure: Callable[..., Any], *case: Any) -> Any:
    """Call `measure` in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, *case).result()


def table(shape: str, schedule: str, methods: list[str], pairs: int, steps: int) -> None:
    """Measure the methods in `methods`, and print one table, line by line."""
    print(
        f"\n| {shape}, {schedule} | s a step | ratio | of the pairs | MiB | ratio |\n|---|---|---|---|---|---|",
        flush=True,
    )
    base_memory = in_a_process(peak_mebibytes, shape, schedule, "GRPOTrainer", 2)
    several = steps_of_rollout(schedule) > 1
    for method in methods:
        if method == "GRPOTrainer" or (not several and "exact_step" in method):  # it differs only after the first step
            continue
        memory = in_a_process(peak_mebibytes, shape, schedule, method, 2)
        measured = [seconds_of_pair(shape, schedule, method, steps) for _ in range(pairs)]
        ratios = [[ours / theirs for theirs, ours in pair] for pair in measured]
        ratio = median(chain(*ratios))
        medians = sorted(map(median, ratios))
        seconds = median(theirs for theirs, _ in chain(*measured))
        print(
            f"| {method} | {ratio * seconds:.3f} | {ratio:.2f} | {medians[0]:.2f} to {medians[-1]:.2f} "
            f"| {memory:.0f} | {memory / base_memory:.3f} |",
            flush=True,
        )


def main() -> None:
    """Print one table for each vocabulary and schedule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3, help="pairs of processes for each method")
    parser.add_argument("--steps", type=int, default=8, help="optimizer steps that each pair is timed for")
    parser.add_argument("--shape", choices=SHAPES | NAMED, help="one vocabulary only")
    parser.add_argument("--schedule", choices=SCHEDULES, help="one schedule only")
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=list(METHODS), help="some rows only")
    arguments = parser.parse_args()
    # Otherwise the C library returns freed memory and requests it again, page by page, which takes most of the time.
    os.environ |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
    os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    for shape in [arguments.shape] if arguments.shape else SHAPES:
        for schedule in [arguments.schedule] if arguments.schedule else SCHEDULES:
            table(shape, schedule, arguments.methods, arguments.pairs, arguments.steps)


if __name__ == "__main__":
    main()
