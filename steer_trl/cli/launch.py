"""Several processes, each of which prints its own line where it fails.

`steer-trl train --accelerate_config zero3` is `accelerate launch --config_file zero3.yaml -m steer_trl.cli train`.
"""

import logging
import signal
import subprocess
from importlib import resources
from pathlib import Path

import torch
from accelerate.commands.launch import launch_command, launch_command_parser
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from steer_trl.cli.errors import INTERRUPTED, MISUSE, say
from steer_trl.cli.recipe_files import ENGINES, find_file, read_yaml
from steer_trl.exceptions import InvalidValueError
from steer_trl.validation import in_interval, refuse


def find_engine(name: str, num_processes: int | None = None) -> tuple[Path, int]:
    """Return an `accelerate` configuration, of a path or a name, and how many processes it starts on all machines."""
    try:
        path = find_file(name, ENGINES, "engine configuration")
    except FileNotFoundError:
        path = Path(str(resources.files("trl.accelerate_configs").joinpath(f"{name}.yaml")))
        if not path.is_file():
            raise
    settings = read_yaml(path)
    count = int(settings.get("num_processes") or 1) if num_processes is None else num_processes
    refuse(in_interval("num_processes", count, "[1, inf)"), "steer-trl train")
    here, devices = count // int(settings.get("num_machines") or 1), torch.accelerator.device_count()
    if here > max(devices, 1) and not settings.get("use_cpu"):
        raise InvalidValueError(
            f"accelerate_config {path.name!r} starts {here} processes, one per GPU, and this machine has {devices} "
            f"GPU(s). Set --num_processes {max(devices, 1)}, or use 'single_gpu' or 'cpu'."
        )
    return path, count


def launch(engine: Path, num_processes: int, arguments: list[str]) -> None:
    """Run `steer-trl` with `arguments` in every process; exit with the code of the one that failed first."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the processes have said it
    command = ["--config_file", str(engine), "--num_processes", str(num_processes), "--module", "steer_trl.cli"]
    rank = 0
    try:
        launch_command(launch_command_parser().parse_args([*command, *arguments]))
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
