"""The process of one model of the demonstration. It runs commands one after the other, and ends with its parent.

    python -m steer_trl.demo.child NAME '[["python", "-m", "steer_trl.cli", "train"], ["python", "-m", ...]]'

The parent holds the other end of the standard input. When the parent ends, even by a signal that it cannot handle, the
system closes that end. This process then reads the end of its input, and kills its process group: itself, the command,
and all that the command has started.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


def run_commands(name: str, commands: list[list[str]]) -> None:
    """Run the commands of the model called `name`, and exit with the code of the first one that fails.

    The file `NAME.lock` is locked meanwhile. Commands inherit the lock, so the next demonstration in the folder waits
    until the last one of a killed demonstration has ended.
    """
    os.setsid()
    threading.Thread(target=end_with_parent, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: end())
    with Path(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in commands:
            process = subprocess.run(command, stdin=subprocess.DEVNULL, pass_fds=[lock.fileno()], check=False)
            if process.returncode:
                sys.exit(f"exit code {process.returncode}")


def end_with_parent() -> None:
    """Wait until the parent has ended or has closed its end of the pipe, and end."""
    # A read of `sys.stdin` holds a lock that Python needs to exit. The parent never writes.
    os.read(sys.stdin.fileno(), 1)
    end()


def end() -> None:
    """Kill this process and every other one of its group."""
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    run_commands(sys.argv[1], json.loads(sys.argv[2]))
