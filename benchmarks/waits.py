"""Counts how often an optimizer step waits for the device, on a CPU and without a clock.

    python benchmarks/waits.py
    PYTHONPATH=FOLDER python benchmarks/waits.py      measure another version, in the checkout FOLDER

A wait is an operation whose result CUDA must copy to the host before Python continues, such as a number read from a
tensor, the shape of a selection, or a copy to the CPU. Each wait is counted for the package that called the operation.
A rollout is two steps of four micro-batches with eight completions each. Half of the groups are not informative,
because all of their completions have the same reward.
"""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from datasets import Dataset
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

import steer_trl
from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

OURS = str(Path(steer_trl.__file__).parent)
THEIRS = ("/trl/", "/accelerate/", "/transformers/")
# On CUDA, `bincount` reads the smallest and the largest number, so it waits twice.
WAITS = {"_local_scalar_dense": 1, "nonzero": 1, "masked_select": 1, "bincount": 2, "_unique2": 1, "equal": 1}
COPIES = ("tolist", "cpu")

STEPS, MICRO_BATCHES = 4, 4
RUN = {"max_steps": STEPS, "num_generations": 8, "per_device_train_batch_size": 8, "max_completion_length": 8}
RUN |= {"gradient_accumulation_steps": MICRO_BATCHES, "steps_per_generation": 2 * MICRO_BATCHES}
RUN |= {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "logging_steps": 1}
RUN |= {"save_strategy": "no", "report_to": "none", "disable_tqdm": True}
HELD = {"advantage_shaping": "stare", "stare_variant": "C2", "stare_gate": "none", "hold_entropy": 0.5}
C2 = {"advantage_shaping": "stare", "stare_variant": "C2", "stare_gate": "none"}
C2 |= {"stare_amplify": 1.25, "stare_attenuate": 0.8}
CASES: dict[str, dict[str, Any]] = {
    "none": {"advantage_shaping": "none"},
    "none, without padding": {"advantage_shaping": "none", "skip_padding": True},
    "STEER": {"advantage_shaping": "steer"},
    "STARE's C2, constant weight": C2,
    "STARE's C2, dynamic sampling": C2 | {"dynamic_sampling": "resample"},
    "STARE's C2, held entropy": HELD,
}


class Waits(TorchDispatchMode):
    """Counts waits by the name of the operation, for this package (`ours`) and for TRL and others (`theirs`)."""

    def __init__(self) -> None:
        super().__init__()
        self.ours: Counter[str] = Counter()
        self.theirs: Counter[str] = Counter()

    def note(self, name: str, count: int = 1) -> None:
        """Count waits for this package or for TRL and its libraries, whichever has the innermost frame."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(OURS):
                self.ours[name] += count
                return
            if any(part in path for part in THEIRS):
                self.theirs[name] += count
                return
            frame = frame.f_back

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count it if it waits."""
        name = func._schema.name.split("::")[-1]
        indices = args[1] if name in ("index", "index_put", "index_put_") else ()
        is_mask = any(index is not None and index.dtype == torch.bool for index in indices)
        if name in WAITS or is_mask:
            self.note(name, WAITS.get(name, 1))
        return func(*args, **(kwargs or {}))


@contextmanager
def counting() -> Iterator[Waits]:
    """Count the waits in a `with` block.

    On a CPU, copies to the CPU are not dispatched, so the methods that copy are replaced.
    """
    waits = Waits()
    with ExitStack() as stack:
        for name in COPIES:
            method = getattr(torch.Tensor, name)

            def counted(tensor: Any, *args: Any, method: Any = method, name: str = name, **kwargs: Any) -> Any:
                waits.note(name)
                return method(tensor, *args, **kwargs)

            stack.enter_context(patch.object(torch.Tensor, name, counted))
        stack.enter_context(waits)
        yield waits


def write(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Return completions of random tokens, instead of generating them with the policy."""
    dice = random.Random(trainer.state.global_step)
    ids = [[dice.randrange(3, 14) for _ in range(dice.randint(3, 8))] for _ in prompts]
    return {"prompt_ids": [[5] * dice.randint(2, 5) for _ in prompts], "completion_ids": ids, "logprobs": None}


def half_of_the_groups(completions: list[str], **_: Any) -> list[float]:
    """Return rewards that differ in every second group."""
    return [float(i % 2 and i % 16 < 8) for i, _ in enumerate(completions)]


def count_waits(settings: dict[str, Any] | None) -> Waits:
    """Count the waits of `STEPS` training steps with `settings`, or, with `None`, of TRL's own trainer."""
    tokenizer = tiny_tokenizer("0123456789+=")
    is_ours = settings is not None
    trainer_class, config_class = (SteerGRPOTrainer, SteerGRPOConfig) if is_ours else (GRPOTrainer, GRPOConfig)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_class(
            model=tiny_qwen2(tokenizer),
            reward_funcs=half_of_the_groups,
            args=config_class(folder, **RUN | (settings or {})),
            train_dataset=Dataset.from_dict({"prompt": ["1+1="] * 64}),
            processing_class=tokenizer,
            rollout_func=write,
        )
        trainer.remove_callback(PrinterCallback)
        with counting() as waits:
            trainer.train()
    return waits


def main() -> None:
    """Print a table of the waits in a step."""
    torch.set_num_threads(1)
    print("| training | waits of a step: TRL, Transformers, Accelerate | this package |")
    print("|---|--:|--:|")
    for name, settings in {"TRL's trainer": None, **CASES}.items():
        waits = count_waits(settings)
        theirs, ours = (one.total() / STEPS for one in (waits.theirs, waits.ours))
        print(f"| {name} | {theirs:g} | {ours:g} |", flush=True)


if __name__ == "__main__":
    main()
