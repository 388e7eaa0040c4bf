"""Trains and evaluates several models from one start model, each with `steer-trl train` and `steer-trl eval`.

One folder holds the problems, the start model and a folder for each run. A run's folder has its recipe, log, model,
output, the commits of its code, and in `_test` the evaluation of its model, which `steer-trl compare` reads. A run
that was killed continues from its last checkpoint. A run that has ended with the same settings is not repeated.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from tqdm.auto import tqdm

from experiments.lab.task import Task
from steer_trl.cli.recipe_files import load_recipe
from steer_trl.evaluation.records import SUMMARY
from steer_trl.monitoring import run_files
from steer_trl.monitoring.key_names import GENERATED_TOKENS
from steer_trl.support.exceptions import CannotContinueError

START, PROBLEMS, TEST = "start", "problems", "_test"
RECIPE, TEST_RECIPE, OUTPUT, COMMITS = "recipe.yaml", "test.yaml", "output.txt", "commits.txt"
SAMPLINGS = ("papers", "greedy", "t1")
SAMPLES = 16  # samples of each problem; one if greedy
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
SECONDS = 5  # the time between two readings of a run's log, which grows
ROOT = Path(__file__).parents[2]
T = TypeVar("T")


@dataclass(frozen=True)
class Experiment:
    """A task and a start model, from which any number of models are trained.

    Attributes:
        task ([`Task`]): the task that models learn.
        output_dir (`Path`): the folder for the problems, the start model and all runs.
        seed (`int`): the seed of the start model.
        start_steps (`int`, *optional*): the number of supervised steps of the start model, if it is not the task's.
        num_problems (`int`, *optional*): the number of validation problems and of test problems, if fewer than the
            task's are used.
        samplings (`Sequence[str]`): the samplings with which a trained model is evaluated.
        splits (`Sequence[str]`): the splits on which a trained model is evaluated.
        launcher (`Sequence[str]`): arguments of `steer-trl train` that start several processes.
        evaluation (`dict`): settings of `steer-trl eval` in place of the usual ones.
        program (`Sequence[str]`): arguments of Python that run `steer-trl`.
    """

    task: Task
    output_dir: Path
    _: KW_ONLY
    seed: int = 0
    start_steps: int | None = None
    num_problems: int | None = None
    samplings: Sequence[str] = SAMPLINGS
    splits: Sequence[str] = ("test",)
    launcher: Sequence[str] = ()
    evaluation: dict[str, Any] = field(default_factory=dict)
    program: Sequence[str] = ("-m", "steer_trl.cli")

    def folder(self, name: str) -> Path:
        """Return the folder of a run."""
        return self.output_dir / re.sub(r"[^\w.]+", "_", name).strip("_").lower()

    @property
    def start(self) -> str:
        """The name or folder of the model that every run begins with."""
        return self.task.start if self._start_steps is None else str(self.folder(START))

    @property
    def _start_steps(self) -> int | None:
        return self.task.start_steps if self.start_steps is None else self.start_steps

    def problems(self, split: str) -> str:
        """Return the path of the file with the problems of a split."""
        return str(self.output_dir / PROBLEMS / f"{split}.jsonl")

    def make_start(self) -> None:
        """Write the problems, make the start model if it is missing, and evaluate it."""
        self.task.write_problems(self.output_dir / PROBLEMS, self.num_problems)
        if self._start_steps is None:
            return self._test(START, self.task.start)
        recipe = {"output_dir": self.start, "steps": self._start_steps, "seed": self.seed}
        if not self._is_under_way(START, recipe) or not (self.folder(START) / "config.json").exists():
            self._write_recipe(START, recipe)
            _run(START, self.folder(START), ["-m", self.task.start], total=self._start_steps)
        return self._test(START, self.start)

    def train(self, name: str, settings: dict[str, Any]) -> None:
        """Train with the task's recipe and the `settings` of `steer-trl train`, and evaluate the model.

        Raises:
            `CannotContinueError`: a command failed. The message holds the end of its output.
        """
        recipe, folder = self.recipe(name, settings), self.folder(name)
        if self.is_done(name, settings):
            return
        if self._is_under_way(name, recipe):
            flags = ["--resume_from_checkpoint", "auto"]
        else:
            flags = []
            self._write_recipe(name, recipe)
        whole = load_recipe(folder / RECIPE)
        budget = whole.get("max_generated_tokens")
        command = [*self.program, "train", *self.launcher, *flags]
        _run(name, folder, command, total=budget or whole["max_steps"], counts_tokens=budget is not None)
        self._test(name, str(folder))

    def recipe(self, name: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the recipe of a run."""
        return {
            "extends": self.task.recipe,
            "model_name_or_path": self.start,
            "dataset_name": self.problems("train"),
            "reward_funcs": self.task.judge,
            "eval_benchmarks": [f"validation={self.problems('validation')}@{SAMPLES}"],
            "eval_samplings": list(SAMPLINGS),
            "eval_judge": self.task.judge,
            "output_dir": str(self.folder(name)),
            "disable_tqdm": True,
            **settings,
        }

    def is_done(self, name: str, settings: dict[str, Any]) -> bool:
        """Return whether a run with these settings has ended and was evaluated."""
        return self._is_under_way(name, self.recipe(name, settings)) and self._is_tested(name)

    def _is_tested(self, name: str) -> bool:
        return all((self.folder(name) / TEST / sampling / SUMMARY).exists() for sampling in self.samplings)

    def _is_under_way(self, name: str, recipe: dict[str, Any]) -> bool:
        path = self.folder(name) / RECIPE
        return path.exists() and yaml.safe_load(path.read_text()) == recipe

    def _write_recipe(self, name: str, recipe: dict[str, Any]) -> None:
        folder = self.folder(name)
        shutil.rmtree(folder, ignore_errors=True)  # the folder may hold a run with a different recipe
        folder.mkdir(parents=True)
        (folder / RECIPE).write_text(yaml.safe_dump(recipe, sort_keys=False))

    def _test(self, name: str, model: str) -> None:
        """Evaluate a model with `steer-trl eval`, unless this is already done."""
        if self._is_tested(name):
            return
        of_task, folder = load_recipe(self.task.recipe), self.folder(name)
        recipe = {
            "model_name_or_path": model,
            "output_dir": str(folder / TEST),
            "benchmarks": [f"{split}={self.problems(split)}@{SAMPLES}" for split in self.splits],
            "samplings": list(self.samplings),
            "judge": self.task.judge,
            "max_tokens": of_task["max_completion_length"],
            "batch_size": of_task["per_device_eval_batch_size"],
            "backend": "transformers",
            **self.evaluation,
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TEST_RECIPE).write_text(yaml.safe_dump(recipe, sort_keys=False))
        _run(name, folder, [*self.program, "eval"], recipe=TEST_RECIPE)


def let_processes_import() -> None:
    """Let child processes import the tasks, reward functions and example methods of this clone."""
    paths = [str(ROOT), str(ROOT / "examples/methods"), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def environment() -> dict[str, str]:
    """Return the environment of a process that runs on one thread."""
    return os.environ | ENVIRONMENT


def side_by_side(work: Callable[[T], None], items: Iterable[T], workers: int | None = None) -> None:
    """Do `work` on each item, by default as many at a time as there are cores. A failure cancels the waiting items."""
    with ThreadPoolExecutor(workers or _cores()) as pool:
        list(pool.map(work, items))


def _commit() -> str:
    """Return the current commit, followed by `-dirty` if tracked files were changed."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip() or "none"


def _cores() -> int:
    """Return the number of cores that this process may use; on macOS, all cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(
    name: str,
    folder: Path,
    command: Sequence[str],
    recipe: str = RECIPE,
    total: int | None = None,
    counts_tokens: bool = False,
) -> None:
    """Run a command with a recipe to its end. With a `total`, a progress bar follows the run's log."""
    unit = "token" if counts_tokens else "step"
    if recipe == RECIPE:
        with (folder / COMMITS).open("a") as commits:
            commits.write(_commit() + "\n")
    command = [sys.executable, *command, "--config", str(folder / recipe)]
    with (
        tqdm(total=total, desc=name, unit=unit, unit_scale=counts_tokens, disable=total is None) as bar,
        open(folder / OUTPUT, "a" if recipe == TEST_RECIPE else "w") as output,
        subprocess.Popen(command, env=environment(), stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        counted = GENERATED_TOKENS if counts_tokens else "step"
        while is_running(process):
            show(bar, folder, counted)
        show(bar, folder, counted)
    if process.returncode:
        said = (folder / OUTPUT).read_text()[-2000:]
        raise CannotContinueError(f"{name} failed. {folder / OUTPUT} ends in:\n\n{said}")


def is_running(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process still runs, after a while or as soon as it has ended."""
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def show(bar: Any, folder: Path, counted: str) -> None:
    """Show a run's progress and entropy in a progress bar. The bar's clock starts with the first step."""
    latest: dict[str, Any] = {}
    for entry in run_files.lines(folder / run_files.LOGS / run_files.METRICS):
        latest |= {key: value for key, value in (entry or {}).items() if value is not None}
    done = min(latest.get(counted, 0), bar.total or 0)
    if done and not bar.n:
        bar.unpause()  # excludes loading the model and evaluating the start model
        bar.initial = done
    if "entropy" in latest:
        bar.set_postfix_str(f"entropy {latest['entropy']:.3f}", refresh=False)
    if done > bar.n:
        bar.update(done - bar.n)
