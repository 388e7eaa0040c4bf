"""The same start trained with several methods: same data in the same order, side by side, one torch thread each."""

import json
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from datasets import disable_progress_bars
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.utils import logging as transformers_logging

from steer_trl import SteerGRPOConfig
from steer_trl.countdown.evaluation import SAMPLINGS, evaluate
from steer_trl.countdown.model import supervised_start
from steer_trl.countdown.progress import make_bars
from steer_trl.countdown.task import split_problems
from steer_trl.countdown.training import MEASURED, SETTINGS, save_measured, train

START = "start"


def _cores() -> int:
    """Cores this process may use; macOS cannot tell, and gives all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Experiment:
    """Sizes of a comparison. `methods` maps a name to fields of [`~steer_trl.SteerGRPOConfig`]."""

    methods: dict[str, dict[str, Any]]
    output_dir: Path
    supervised_steps: int = 1100
    steps: int = 320
    held_out: int = 400
    eval_every: int = 80
    batch_size: int = 128
    seed: int = 0
    processes: int = field(default_factory=_cores)

    def folder(self, name: str) -> Path:
        """Where a method leaves its model and its `measured.json`."""
        return self.output_dir / re.sub(r"\W+", "_", name).strip("_").lower()


def run(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Make the start, train every method from it, and return what each measured, by name; `START` comes first.

    Everything is also written to `output_dir`: the models, and one `measured.json` each.
    """
    jobs: list[tuple[str, Callable[..., None], int]] = [(START, _make_start, experiment.supervised_steps)]
    _run_side_by_side(experiment, jobs)
    _run_side_by_side(experiment, [(name, _train, experiment.steps) for name in experiment.methods])
    names = [START, *experiment.methods]
    return {name: json.loads((experiment.folder(name) / MEASURED).read_text()) for name in names}


def _run_side_by_side(experiment: Experiment, jobs: Sequence[tuple[str, Callable[..., None], int]]) -> None:
    context = get_context("spawn")  # a forked torch can hang
    with context.Manager() as manager, ProcessPoolExecutor(experiment.processes, context, _one_thread) as pool:
        progress = manager.Queue()
        bars = make_bars({name: total for name, _, total in jobs})
        futures = [pool.submit(work, experiment, name, progress) for name, work, _ in jobs]
        for future in futures:
            future.add_done_callback(lambda _: progress.put(None))
        for _ in futures:
            while (message := progress.get()) is not None:
                name, steps, comment = message
                bars[name].show(steps, comment)
        for bar in bars.values():
            bar.close()
        for future in futures:
            future.result()


def _one_thread() -> None:
    torch.set_num_threads(1)
    disable_progress_bars()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()


class _Progress(TrainerCallback):
    def __init__(self, name: str, queue: Any) -> None:
        self.name, self.queue = name, queue

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Tell how far the run is."""
        last = state.log_history[-1] if state.log_history else {}
        comment = f"entropy {last['entropy']:.3f}" if "entropy" in last else ""
        self.queue.put((self.name, state.global_step, comment))


class _HeldOut(TrainerCallback):
    """Evaluates at temperature 1 every few steps; the last step is left to the final evaluation."""

    def __init__(self, experiment: Experiment, prompts: list[str]) -> None:
        self.experiment, self.prompts = experiment, prompts
        self.measured: list[dict[str, Any]] = []

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate if it is time."""
        if state.global_step % self.experiment.eval_every == 0 and state.global_step < state.max_steps:
            metrics = evaluate(kwargs["model"], kwargs["processing_class"], self.prompts, *SAMPLINGS["T=1"])
            self.measured.append({"step": state.global_step} | metrics)


def _make_start(experiment: Experiment, name: str, progress: Any) -> None:
    prompts = split_problems(experiment.held_out)[1]
    folder = experiment.folder(name)
    supervised_start(folder, experiment.supervised_steps, prompts, [_Progress(name, progress)], experiment.seed)
    save_measured(folder, experiment.held_out)


def _train(experiment: Experiment, name: str, progress: Any) -> None:
    folder = experiment.folder(name)
    sizes = {"max_steps": experiment.steps, "per_device_train_batch_size": experiment.batch_size}
    settings = SETTINGS | sizes | {"seed": experiment.seed, "output_dir": str(folder)} | experiment.methods[name]
    on_held_out = _HeldOut(experiment, split_problems(experiment.held_out)[0])
    callbacks = [_Progress(name, progress), on_held_out]
    measured = train(experiment.folder(START), SteerGRPOConfig(**settings), experiment.held_out, callbacks)
    measured = save_measured(folder, experiment.held_out, held_out=on_held_out.measured, **measured)
    measured["held_out"].append({"step": experiment.steps} | measured["final"]["T=1"])
    (folder / MEASURED).write_text(json.dumps(measured, indent=1))
