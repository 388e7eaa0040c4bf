"""Starts the processes of a distributed run, which print their own errors.

`steer-trl train --accelerate_config zero3` runs `accelerate launch --config_file zero3.yaml -m steer_trl.cli train`.
"""

import logging
import os
import signal
import subprocess
from pathlib import Path

import torch
from accelerate.commands.launch import launch_command, launch_command_parser
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from steer_trl.cli.errors import INTERRUPTED, MISUSE, say
from steer_trl.cli.recipe_files import find_engine_file, read_yaml
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import check_interval, refuse


def read_engine(name: str, num_processes: int | None = None) -> tuple[Path, int]:
    """Return the path of an `accelerate` configuration and the total number of processes on all machines.

    `name` is a path or the name of a configuration. If `num_processes` is given, it replaces the number in the
    configuration.
    """
    path = find_engine_file(name)
    settings = read_yaml(path)
    count = int(settings.get("num_processes") or 1) if num_processes is None else num_processes
    refuse(check_interval("num_processes", count, "[1, inf)"), "steer-trl train")
    # YAML reads the word NO as false.
    if count > 1 and settings.get("distributed_type") in ("NO", False):
        raise InvalidValueError(
            f"accelerate_config {path.name!r} is for one process, so num_processes={count} would be ignored. Use "
            "'ddp' or 'zero3' for several GPUs, 'cpu_2_processes' without one, or leave num_processes out."
        )
    on_this_machine = count // int(settings.get("num_machines") or 1)
    devices = torch.accelerator.device_count()
    if on_this_machine > max(devices, 1) and not settings.get("use_cpu"):
        raise InvalidValueError(
            f"accelerate_config {path.name!r} starts {on_this_machine} processes, one per GPU, and this machine has "
            f"{devices} GPU(s). Set --num_processes {max(devices, 1)}, or use 'single_gpu' or 'cpu'."
        )
    return path, count


def launch(engine: Path, num_processes: int, arguments: list[str]) -> None:
    """Run `steer-trl` with `arguments` in every process.

    If a process fails, exit with the exit code of the first process that failed.
    """
    # The launcher's log is silenced, because it would repeat the errors that the processes print.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    command = ["--config_file", str(engine), "--num_processes", str(num_processes)]
    if read_yaml(engine).get("use_cpu"):
        # A small model is slower with several threads, because the threads wait for each other.
        command += ["--num_cpu_threads_per_process", os.environ.get("OMP_NUM_THREADS", "1")]
    command += ["--module", "steer_trl.cli", *arguments]
    rank = 0
    try:
        launch_command(launch_command_parser().parse_args(command))
        return
    except SignalException as error:
        code = -error.sigval
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = failure.exitcode
    except subprocess.CalledProcessError as error:
        code = error.returncode
    if code in (INTERRUPTED, -signal.SIGINT):
        raise KeyboardInterrupt
    if code != MISUSE:
        say(f"steer-trl train: error: process {rank} ended with exit code {code}; its messages are above.")
    raise SystemExit(code if code > 0 else 128 - code)
