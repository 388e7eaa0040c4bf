"""Several processes: what they are started by, and one line, once, when they fail.

`steer-trl train --accelerate_config zero3` is `accelerate launch --config_file zero3.yaml -m steer_trl.cli train`.
Before anything is started the command line is parsed as each process will parse it, and this machine is asked whether
it has the devices.
"""

import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from accelerate.commands.launch import launch_command, launch_command_parser
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from steer_trl.cli.errors import CRASHED, FAILURES, HINT, INTERRUPTED, MISUSE, SAID, Failed, wants_traceback
from steer_trl.cli.recipe_files import ENGINES, find_file, read_yaml
from steer_trl.exceptions import InvalidValueError
from steer_trl.validation import refuse


@dataclass(frozen=True)
class Engine:
    """An `accelerate` configuration: its file, what is in it, and how many processes it starts on all machines."""

    path: Path
    settings: dict[str, Any]
    num_processes: int

    @classmethod
    def find(cls, name: str, num_processes: str | None = None) -> "Engine":
        """Return the configuration at a path or with a name, of this package or of TRL's, for this machine.

        Raises:
            `FileNotFoundError`: there is none.
            `ValueError`: this machine lacks the devices or the package that it asks for.
        """
        theirs = resources.files("trl.accelerate_configs").joinpath(f"{name}.yaml")
        try:
            path = find_file(name, ENGINES, "engine configuration")
        except FileNotFoundError:
            if not theirs.is_file():
                raise
            path = Path(str(theirs))
        settings = read_yaml(path)
        if num_processes is not None and not (num_processes.isdecimal() and int(num_processes) > 0):
            raise InvalidValueError(f"num_processes must be a whole number >= 1, got {num_processes!r}.")
        refuse(_count_complaints(path, settings), f"accelerate_config {name!r}")
        engine = cls(path, settings, int(num_processes or settings.get("num_processes") or 1))
        refuse(engine.complaints(), f"accelerate_config {name!r}")
        return engine

    def complaints(self) -> list[str]:
        """Say what this machine lacks."""
        complaints = []
        machines = int(self.settings.get("num_machines") or 1)
        here, devices = self.num_processes // machines, torch.accelerator.device_count()
        if self.num_processes % machines:
            complaints.append(f"num_processes={self.num_processes} must be a multiple of num_machines={machines}.")
        if self.num_processes > 1 and self.settings.get("distributed_type") in ("NO", False):
            complaints.append(
                f"num_processes={self.num_processes} cannot be combined with {self.path.name!r}, which starts one. "
                "Use 'ddp', or on the CPU 'cpu_2_processes'."
            )
        elif here > max(devices, 1) and not self.settings.get("use_cpu"):
            complaints.append(
                f"accelerate_config {self.path.name!r} starts {here} processes, one per GPU, and this machine has "
                f"{devices} GPU(s). Say --num_processes {max(devices, 1)}, or use 'single_gpu' or 'cpu'."
            )
        if self.settings.get("distributed_type") == "DEEPSPEED" and find_spec("deepspeed") is None:
            complaints.append(
                f"accelerate_config {self.path.name!r} needs DeepSpeed, which is not installed here: pip install "
                "'steer_trl[deepspeed]'"
            )
        return complaints

    def launch(self, arguments: list[str]) -> None:
        """Run `steer-trl` with `arguments` in every process, and wait for them.

        Raises:
            `Failed`: with what they have said.
        """
        command = ["--config_file", str(self.path), "--num_processes", str(self.num_processes)]
        with TemporaryDirectory() as folder, _quiet_launcher(folder):
            try:
                launch_command(launch_command_parser().parse_args([*command, "--module", "steer_trl.cli", *arguments]))
            except SignalException as error:
                if error.sigval == signal.SIGINT:
                    raise KeyboardInterrupt from None
                raise Failed([f"the launcher was ended by signal {error.sigval:d}."], 128 + error.sigval) from None
            except (subprocess.CalledProcessError, ChildFailedError) as error:
                if wants_traceback():
                    raise
                if _exit_code(error)[1] in (INTERRUPTED, -signal.SIGINT):
                    raise KeyboardInterrupt from None
                raise failure(error, Path(folder)) from None


def _count_complaints(path: Path, settings: dict[str, Any]) -> list[str]:
    """Complain about numbers of processes and machines that are none; `null` leaves them to the launcher."""
    counts = {name: settings.get(name) for name in ("num_processes", "num_machines")}
    return [
        f"{path}: {name} must be a whole number >= 1, got {count!r}."
        for name, count in counts.items()
        if count is not None and not (str(count).isdecimal() and int(count) > 0)
    ]


@contextmanager
def _quiet_launcher(folder: str) -> Iterator[None]:
    """Let the processes leave their lines in `folder`, and the launcher print nothing of its own about them."""
    logger = logging.getLogger("torch.distributed.elastic")
    level = logger.level
    if not wants_traceback():
        logger.setLevel(logging.CRITICAL)
        os.environ[FAILURES] = folder
    try:
        yield
    finally:
        logger.setLevel(level)
        os.environ.pop(FAILURES, None)


def failure(error: subprocess.CalledProcessError | ChildFailedError, folder: Path) -> Failed:
    """What the processes have printed, each line once; of a crash, which of them it was.

    The others fail after the first, as they wait for it: a crash that follows what one has printed is no cause.
    """
    left = sorted(folder.iterdir(), key=lambda path: (path.stat().st_mtime_ns, path.suffix != CRASHED))
    if left and left[0].suffix == CRASHED:
        return Failed([f"process {left[0].stem} has crashed; its traceback is above."], 1)
    said = [path for path in left if path.suffix == SAID]
    lines = list(dict.fromkeys(line for path in said for line in path.read_text().splitlines()))
    if lines:  # a library says of the others that their connection is closed
        return Failed([line for line in lines if not line.endswith(HINT)] or lines[:1], MISUSE)
    rank, code = _exit_code(error)
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return Failed([f"process {rank} {how}. Its messages are above."], max(code, 1))


def _exit_code(error: subprocess.CalledProcessError | ChildFailedError) -> tuple[int, int]:
    """The process that failed first, and its exit code; that of a signal is negative."""
    if isinstance(error, ChildFailedError):
        rank, failure = error.get_first_failure()
        return rank, failure.exitcode
    return 0, error.returncode
