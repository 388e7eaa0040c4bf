"""Scripts and commands in processes of their own, alone or under `accelerate launch`."""

import subprocess
import sys

import yaml

from support import ENVIRONMENT, ROOT, forked

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


def run(*command, engine=None, folder=None, check=True, launched=False, **environment):
    """Run Python with this command line, on the processes of an accelerate configuration if one is given.

    `launched` ones have interpreters of their own and are started by the real launcher; the others are forked from a
    process that has loaded what they need (`forked.py`), which saves ten seconds of a processor for each.
    """
    words, environment = [str(word) for word in command], ENVIRONMENT | environment
    if launched:
        launch = ["-m", "accelerate.commands.launch", *forked.free_port()]
        launch = [*launch, "--config_file", str(engine)] if engine else []
        words = [sys.executable, *launch, *words]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=forked.LIMIT)
    else:
        done = forked.run(words, engine, folder, environment)
    assert not check or done.returncode == 0, done.stderr[-5000:]
    return done
