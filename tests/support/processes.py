"""Scripts and commands in processes of their own, alone or under `accelerate launch`."""

import subprocess
import sys

from support import ENVIRONMENT, ROOT

TWO_PROCESSES = ROOT / "configs/accelerate/cpu_2_processes.yaml"


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
