"""Starts the two training runs of the demonstration in parallel, each in a single-threaded process.

All files are in one folder: the problems, the model that both runs start from, and each run's log, model and
evaluation. The same command continues an interrupted demonstration, and skips the parts that are finished. One
demonstration at a time works in a folder, and its processes end with the command, however it ends.
"""

import json
import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from steer_trl.demo.folders import GRPO, HELD, START, TEST, TEST_SAMPLING, UNFINISHED_START
from steer_trl.demo.puzzle import SPLITS, START_STEPS, problems
from steer_trl.evaluation.records import SUMMARY
from steer_trl.monitoring import run_files
from steer_trl.monitoring.key_names import ENTROPY, GENERATED_TOKENS
from steer_trl.support.exceptions import CannotContinueError
from steer_trl.support.system import write_text_whole

SHIPPED = Path(__file__).parent / "start"
"""The folder of the model that runs with seed 0 start from. It also holds the model's evaluation.

It is start 73 of `experiments/starts` in half precision: of the ten starts there from 71 to 80 the fifth, by the
validation problems that it solves in one try.
"""
LOCK = "demo.lock"
# Seconds between two readings of the logs.
SECONDS = 1.0
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
    # These two values make glibc keep the memory of freed tensors. Returning it and allocating it again took a
    # seventh of the run time.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
"""Environment variables that are set for the processes of the demonstration."""


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
            `CannotContinueError`: the folder has runs with other settings, another demonstration works in it, or a
                process failed.
        """
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
        settings = folder / "settings.json"
        if settings.exists() and json.loads(settings.read_text()) != asdict(self):
            raise CannotContinueError(f"{folder} has a demonstration with other settings. Give another --output_dir.")
        write_text_whole(settings, json.dumps(asdict(self)))
        for split in SPLITS:
            rows = "".join(json.dumps(row) + "\n" for row in problems(split))
            write_text_whole(folder / f"{split}.jsonl", rows)
        flags = [str(self.problems), "--seed", str(self.seed)]
        if self.seed == 0:
            shutil.copytree(SHIPPED, folder / START, dirs_exist_ok=True)
        work(folder, [START], flags, "step", START_STEPS)
        flags += ["--max_generated_tokens", str(self.tokens)]
        work(folder, [GRPO, HELD], flags, GENERATED_TOKENS, self.tokens)


def work(folder: Path, names: list[str], flags: list[str], counted: str, total: int) -> None:
    """Train and test the models in `names` in parallel, skipping those that are already tested.

    Each model has a progress bar, which follows the value logged as `counted` up to `total`.
    """
    names = [name for name in names if not (folder / name / TEST / TEST_SAMPLING / SUMMARY).exists()]
    # All processes are forked from one that has already imported torch and TRL, so that none has to import them again.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["steer_trl.demo.work"])
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, ENVIRONMENT))
        unit = counted.removeprefix("generated_")
        bars = {
            name: stack.enter_context(tqdm(total=total, desc=f"{name:>5}", unit=unit, unit_scale=True))
            for name in names
        }
        processes = {name: context.Process(target=work_in, args=(folder, name, flags)) for name in names}
        for process in processes.values():
            process.start()
            # If an error is raised, the processes are ended, last call first.
            stack.callback(process.join)
            stack.callback(process.terminate)
        while any(process.is_alive() for process in processes.values()):
            time.sleep(SECONDS)
            for name, bar in bars.items():
                is_unfinished = name == START and (folder / UNFINISHED_START).exists()
                show(bar, folder / (UNFINISHED_START if is_unfinished else name), counted)
    for name, process in processes.items():
        if process.exitcode:
            raise CannotContinueError(describe_failure(folder / f"{name}.txt", name, process.exitcode))


def describe_failure(output: Path, name: str, code: int) -> str:
    """Return a text that says how the process of a model ended, with the end of its output."""
    said = output.read_text(errors="replace")[-2000:] if output.exists() else "nothing"
    return f"{name} failed with exit code {code}. {output} ends in:\n\n{said}"


def work_in(folder: Path, name: str, flags: list[str]) -> None:
    """Run [`~steer_trl.demo.work.main`] in `folder`, and append its output to `NAME.txt` in that folder."""
    with attach(folder, name):
        # An error of this import is then in the output.
        from steer_trl.demo.work import main

        main(name, *flags)


@contextmanager
def attach(folder: Path, name: str) -> Iterator[None]:
    """Inside the `with` block, work in `folder` as the only process of a model, and end with the parent process."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.chdir(folder)
    with Path(f"{name}.txt").open("a") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    # A process of a demonstration that was killed a moment ago may still be ending.
    with FileLock(f"{name}.lock"):
        yield


def end_with_parent() -> None:
    """Wait until the command has ended, even by a signal that it cannot handle, and end this process."""
    parent = multiprocessing.parent_process()
    # This runs in a child.
    assert parent is not None
    parent.join()
    os._exit(1)


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
