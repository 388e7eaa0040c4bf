"""Scripts and commands in processes of their own, alone or under `accelerate launch`."""

import subprocess
import sys

import yaml

from support import ENVIRONMENT, ROOT

TWO_PROCESSES = ROOT / "configs/accelerate/cpu_2_processes.yaml"


def engine_on_cpu(name, folder):
    """Write a shipped configuration of `accelerate` with CPU processes, two at most, for its GPUs; return the file."""
    configuration = yaml.safe_load((ROOT / f"configs/accelerate/{name}.yaml").read_text())
    path = folder / f"{name}.yaml"
    processes = min(configuration["num_processes"], 2)
    configuration |= {"use_cpu": True, "num_processes": processes, "mixed_precision": "no"}
    path.write_text(yaml.safe_dump(configuration))
    return path


def flags(fields):
    """The fields as a command line has them."""
    return [str(part) for name, value in fields.items() for part in (f"--{name}", value)]


def run(*command, engine=None, folder=None, check=True):
    """Run Python with this command line, on the processes of an accelerate configuration if one is given."""
    launch = ["-m", "accelerate.commands.launch", "--config_file", engine] if engine else []
    words = [sys.executable, *map(str, [*launch, *command])]
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert not check or done.returncode == 0, done.stderr[-5000:]
    return done
