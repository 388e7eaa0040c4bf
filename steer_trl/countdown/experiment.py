"""The same start trained with several methods: same data in the same order, side by side, one torch thread each.

Every run is a process of its own, which prints a line per step: the command of `model.py` or `training.py` with a
recipe, which stays in the run's folder beside what it printed.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tqdm.auto import tqdm

from steer_trl.countdown.evaluation import MEASURED
from steer_trl.exceptions import CannotContinueError

START, RECIPE, OUTPUT = "start", "recipe.yaml", "output.txt"
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
STEP = re.compile(
    r"^step \d+/\d+  (?!evaluation)|'entropy': "
)  # in the line that a step prints, this package's or TRL's
ENTROPY = re.compile(r"\bentropy(?:': '| )([\d.]+)")  # there, unless dynamic sampling has hidden everything


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
    eval_every: int | None = 80
    batch_size: int = 128
    seed: int = 0
    side_by_side: int = field(default_factory=_cores)  # runs at a time
    after_each: Callable[[str], None] | None = None  # told the name of a method's run that has ended
    launcher: Sequence[str] = ()  # before the `-m` of a training's command: what starts several processes for it

    def folder(self, name: str) -> Path:
        """Where a run leaves its model and its `measured.json`."""
        return self.output_dir / re.sub(r"\W+", "_", name).strip("_").lower()

    def has_run(self, name: str) -> bool:
        """Whether a run with these very settings has left its `measured.json`."""
        folder = self.folder(name)
        if not (folder / MEASURED).exists():
            return False
        return yaml.safe_load((folder / RECIPE).read_text()) == self.recipe(name)

    def recipe(self, name: str) -> dict[str, Any]:
        """The settings of a run: of the start, or of a method."""
        common = {"held_out": self.held_out, "seed": self.seed}
        if name == START:
            return common | {"steps": self.supervised_steps}
        start = {"start": str(self.folder(START)), "eval_every": self.eval_every}
        sizes = {"max_steps": self.steps, "per_device_train_batch_size": self.batch_size}
        return common | start | sizes | self.methods[name]


def run(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """[`make_start`], then [`train_methods`]."""
    make_start(experiment)
    return train_methods(experiment)


def make_start(experiment: Experiment) -> None:
    """Make the model that every method starts from."""
    _run(experiment, START, experiment.supervised_steps, ["-m", "steer_trl.countdown.model", "--logging_steps", "1"])


def train_methods(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Train every method from the start, and return what each run measured, by name; `START` comes first.

    Everything is also written to `output_dir`: the models, and one `measured.json` each.

    Raises:
        `RuntimeError`: a run failed; with the end of what it printed.
    """
    command = [*experiment.launcher, "-m", "steer_trl.countdown.training"]
    with ThreadPoolExecutor(experiment.side_by_side) as pool:  # a failure or an interrupt cancels the runs that wait
        list(pool.map(lambda name: _train(experiment, name, command), experiment.methods))
    names = [START, *experiment.methods] if experiment.methods else []
    return {name: json.loads((experiment.folder(name) / MEASURED).read_text()) for name in names}


def _train(experiment: Experiment, name: str, command: list[str]) -> None:
    _run(experiment, name, experiment.recipe(name)["max_steps"], command)
    if experiment.after_each:
        experiment.after_each(name)


def _run(experiment: Experiment, name: str, steps: int, command: list[str]) -> None:
    folder = experiment.folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECIPE).write_text(yaml.safe_dump(experiment.recipe(name)))
    command = [sys.executable, *command, "--config", str(folder / RECIPE), "--output_dir", str(folder)]
    with (
        tqdm(total=steps, desc=name, unit="step") as bar,
        open(folder / OUTPUT, "w") as output,
        subprocess.Popen(
            command,
            env=os.environ | ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        for line in process.stdout or ():
            output.write(line)
            show(bar, line)
    if process.returncode:
        raise CannotContinueError(
            f"{name} failed. {folder / OUTPUT} ends in:\n\n{(folder / OUTPUT).read_text()[-2000:]}"
        )


def show(bar: Any, line: str) -> None:
    """Show a line of a run in its progress bar, whose time begins with the first step."""
    if entropy := ENTROPY.search(line):
        bar.set_postfix_str(f"entropy {entropy[1]}", refresh=False)
    is_step = STEP.search(line) is not None
    if is_step and bar.n == 0:
        bar.unpause()  # loading the model and evaluating the start are no steps
        bar.initial = 1
    bar.update(is_step)
