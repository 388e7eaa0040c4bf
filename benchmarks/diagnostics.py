"""What the diagnostics take of a training step, in per cent of its CPU time.

    python benchmarks/diagnostics.py

Those of every step are timed by themselves: a fraction of a per cent drowns in a comparison of runs (`overhead.py`).
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
    """CPU seconds of each step until the optimizer's update, and those of its diagnostics."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.diagnostics: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.started = time.thread_time()
        self.diagnostics.append(0.0)

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.steps.append(time.thread_time() - self.started)

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Add what `function` takes to the diagnostics of the step."""

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self.diagnostics[-1] += time.thread_time() - started

        return timed


def row(shape: str, schedule: str, steps: int = 13) -> str:
    """Measure one schedule."""
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
    """Print one table."""
    print("| | share of a step |\n|---|---|")
    for shape in SHAPES:
        for schedule in list(SCHEDULES)[:3]:
            print(row(shape, schedule), flush=True)


if __name__ == "__main__":
    main()
