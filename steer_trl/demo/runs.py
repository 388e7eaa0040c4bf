"""Starts the two training runs of the demonstration in parallel, each as commands in a process of its own.

All files are in one folder: the problems, the model that both runs start from, and each run's log, model and
evaluation. The same command continues an interrupted demonstration, and skips the parts that are finished. One
demonstration at a time works in a folder, and its processes end with the command, however it ends.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from steer_trl.cli.recipe_files import load_recipe
from steer_trl.demo.folders import GRPO, HELD, START, TEST, TEST_SAMPLING, UNFINISHED_START
from steer_trl.demo.puzzle import SPLITS, START_STEPS, problems
from steer_trl.evaluation.records import SUMMARY
from steer_trl.monitoring import run_files
from steer_trl.monitoring.key_names import ENTROPY, GENERATED_TOKENS
from steer_trl.support.exceptions import CannotContinueError
from steer_trl.support.system import write_text_whole
from steer_trl.support.validation import check_interval, refuse

SHIPPED = Path(__file__).parent / "start"
"""The folder of the model that runs with seed 0 start from. It also holds the model's evaluation.

It is start 73 of `experiments/starts` in half precision: of the ten starts there from 71 to 80 the fifth, by the
validation problems that it solves in one try.
"""
PYTHON = (sys.executable, "-m")
STEER_TRL = (*PYTHON, "steer_trl.cli")
LOCK = "demo.lock"
# Seconds between two readings of the logs.
SECONDS = 1.0
SLOW = 1200.0
"""The user is warned of a training that takes longer, in seconds."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
    # These two values make glibc keep the memory of freed tensors. Returning it and allocating it again took a
    # seventh of the run time.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
"""Environment variables that are set for the processes of the demonstration."""

Commands = list[list[str]]
"""Commands that are run one after the other, each as its words."""


@dataclass(frozen=True)
class Demo:
    """The settings of a demonstration.

    Attributes:
        seed (`int`): seed of the two training runs, and of the model that they start from. The model for seed 0 ships
            with the package. For another seed, the model is trained first.
        tokens (`int`): number of tokens that each run generates.
        problems (`int`): number of test problems, at most 2,000.
    """

    seed: int = 0
    tokens: int = 3_000_000
    problems: int = 600

    def run(self, folder: Path) -> None:
        """Train and test both models in `folder`, and show a progress bar for each.

        Raises:
            `ValueError`: a number is outside of its range.
            `CannotContinueError`: the folder has runs with other settings, another demonstration works in it, or a
                process failed.
        """
        complaints = check_interval("seed", self.seed, "[0, 4294967295]")
        complaints += check_interval("tokens", self.tokens, "[1, inf)")
        complaints += check_interval("problems", self.problems, f"[1, {SPLITS['test']}]")
        refuse(complaints, "steer-trl demo")
        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / LOCK, timeout=0):
                self._run(folder)
        except Timeout:
            raise CannotContinueError(
                f"another demonstration works in {folder}. Wait for its end, or give another --output_dir."
            ) from None

    def _run(self, folder: Path) -> None:
        path = folder / "settings.json"
        settings = asdict(self) | {"recipes": {name: load_recipe(f"demo_{name}") for name in (GRPO, HELD)}}
        # Another version of this package may have other recipes.
        if path.exists() and json.loads(path.read_text()) != settings:
            raise CannotContinueError(f"{folder} has a demonstration with other settings. Give another --output_dir.")
        write_text_whole(path, json.dumps(settings))
        for split in SPLITS:
            rows = "".join(json.dumps(row) + "\n" for row in problems(split))
            write_text_whole(folder / f"{split}.jsonl", rows)
        self.prepare_start(folder)
        run_all(folder, {name: self.list_commands(name) for name in (GRPO, HELD)}, GENERATED_TOKENS, self.tokens)

    def prepare_start(self, folder: Path) -> None:
        """Copy the start that ships with the package, or train one for another seed, and test it.

        The training writes to a folder of another name, so the start's own folder holds a finished model. It is not
        trained again, because a part of the test may already have its answers.
        """
        if self.seed == 0:
            # Its test, which ships as well, has the default number of problems.
            is_tested = self.problems == Demo.problems
            ignored = None if is_tested else shutil.ignore_patterns(TEST)
            shutil.copytree(SHIPPED, folder / START, ignore=ignored, dirs_exist_ok=True)
        elif not (folder / START).exists():
            unfinished = folder / UNFINISHED_START
            shutil.rmtree(unfinished, ignore_errors=True)
            command = [*PYTHON, "steer_trl.demo.start_model", "--output_dir", unfinished.name, "--half_precision"]
            settings = ["--seed", str(self.seed), "--steps", str(START_STEPS)]
            run_all(folder, {unfinished.name: [[*command, *settings]]}, "step", START_STEPS)
            unfinished.rename(folder / START)
        run_all(folder, {START: [self.test_command(START)]}, "step", START_STEPS)

    def list_commands(self, name: str) -> Commands:
        """Return the commands that train and test a model. After an interruption, they continue where they stopped."""
        train = [*STEER_TRL, "train", "--config", f"demo_{name}", "--resume_from_checkpoint", "auto"]
        settings = ["--seed", str(self.seed), "--max_generated_tokens", str(self.tokens)]
        return [[*train, *settings], self.test_command(name)]

    def test_command(self, name: str) -> list[str]:
        """Return the command that tests the model called `name`."""
        command = [*STEER_TRL, "eval", "--config", "evaluate_demo", "--limit", str(self.problems)]
        return [*command, "--model_name_or_path", name, "--output_dir", f"{name}/{TEST}"]


def run_all(folder: Path, commands: Mapping[str, Commands], counted: str, total: int) -> None:
    """Run the commands of several models in parallel, except for the models that are already tested.

    `commands` maps the name of each model to its commands, whose output is appended to `NAME.txt`. Each model has a
    progress bar, which follows the value logged as `counted` up to `total`.
    """
    names = [name for name in commands if not (folder / name / TEST / TEST_SAMPLING / SUMMARY).exists()]
    unit = counted.removeprefix("generated_")
    processes = {}
    with ExitStack() as stack:
        bars = {
            name: stack.enter_context(tqdm(total=total, desc=f"{name:>5}", unit=unit, unit_scale=True))
            for name in names
        }
        for name in names:
            processes[name] = start(folder, name, commands[name])
            # After an error, `communicate` closes the pipe, at which the process ends, and waits for it.
            stack.callback(processes[name].communicate)
        has_warned = False
        while any(process.poll() is None for process in processes.values()):
            time.sleep(SECONDS)
            for name, bar in bars.items():
                show(bar, folder / name, counted)
                if counted == GENERATED_TOKENS and not has_warned and (seconds := estimate_seconds(bar)) > SLOW:
                    has_warned = True
                    bar.write(describe_slowness(seconds))
    for name, process in processes.items():
        if process.returncode:
            raise CannotContinueError(describe_failure(folder / f"{name}.txt", name))


def start(folder: Path, name: str, commands: Commands) -> subprocess.Popen[bytes]:
    """Start the process of a model (`child.py`). It ends when its standard input is closed."""
    command = [*PYTHON, "steer_trl.demo.child", name, json.dumps(commands)]
    environment = os.environ | ENVIRONMENT
    with (folder / f"{name}.txt").open("a") as output:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=output
        )


def estimate_seconds(bar: Any) -> float:
    """Return how many seconds all of a bar takes at the rate of its first tenth or more; 0 before that."""
    done = bar.n - bar.initial
    return bar.format_dict["elapsed"] * bar.total / done if done >= bar.total / 10 else 0.0


def describe_slowness(seconds: float) -> str:
    """Return a text for users whose processor is slow."""
    return (
        f"At this rate the training takes {seconds / 60:.0f} minutes. A shorter one shows less: stop this one, and "
        "give --tokens 1000000 and another --output_dir."
    )


def describe_failure(output: Path, name: str) -> str:
    """Return a text about the process of a model that failed, with the end of its output."""
    end_of_output = output.read_text(errors="replace")[-2000:] if output.exists() else "nothing"
    return f"{name} failed. {output} ends in:\n\n{end_of_output}"


def show(bar: Any, folder: Path, counted: str) -> None:
    """Update a progress bar from a run's log, and show the latest entropy.

    The bar's timer starts at the first logged step.
    """
    log = folder / run_files.LOGS / run_files.METRICS
    lines = log.read_bytes().splitlines() if log.exists() else []
    entries = (run_files.loads(line) or {} for line in reversed(lines))
    entry = next((entry for entry in entries if counted in entry and ENTROPY in entry), None)
    if entry is None:
        return
    done = min(entry[counted], bar.total)
    if not bar.n:
        bar.unpause()
        bar.initial = done
    doing = "answering the test problems" if done == bar.total else f"entropy {entry[ENTROPY]:.3f}"
    bar.set_postfix_str(doing, refresh=False)
    bar.update(done - bar.n)
