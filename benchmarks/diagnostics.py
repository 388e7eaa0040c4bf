"""Measures the share of a training step's CPU time that the diagnostics take, in per cent.

    python benchmarks/diagnostics.py

The diagnostics of every step are timed directly, because a comparison of runs (`overhead.py`) is too noisy to show a
fraction of a per cent.
"""

import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from overhead import SCHEDULES, SHAPES, trainer_of
from transformers import TrainerCallback

from steer_trl.trainer.log.step_log import StepLog


class Clock(TrainerCallback):
    """Measures the CPU seconds of each step until the optimizer's update, and of the step's diagnostics."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.diagnostics: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.started = time.thread_time()
        self.diagnostics.append(0.0)

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.steps.append(time.thread_time() - self.started)

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `function` so that its CPU seconds are added to the diagnostics of the current step."""

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self.diagnostics[-1] += time.thread_time() - started

        return timed


def row(shape: str, schedule: str, steps: int = 13) -> str:
    """Measure one schedule, and return its row of the table."""
    clock, untouched = Clock(), (StepLog.add, StepLog.write)
    StepLog.add, StepLog.write = map(clock.timed, untouched)  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = trainer_of(shape, schedule, "none", steps, folder)
            trainer.add_callback(clock)
            trainer.train()
    finally:
        StepLog.add, StepLog.write = untouched  # type: ignore[method-assign]
    return f"| {shape}, {schedule} | {median(clock.diagnostics) / median(clock.steps):.2%} |"


def main() -> None:
    """Print a table with a row for each model shape and schedule."""
    print("| | share of a step |\n|---|---|")
    for shape in SHAPES:
        for schedule in list(SCHEDULES)[:3]:
            print(row(shape, schedule), flush=True)


if __name__ == "__main__":
    main()
