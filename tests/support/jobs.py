"""What the worker processes of a test are given to do; apart, so that they need not load what the test loads."""

import os
import signal
import time
from pathlib import Path


def kill_or_return(what):
    if what == "kill":
        os.kill(os.getpid(), 9)
    return what


def take_memory(size):
    try:
        bytearray(size)
    except MemoryError:
        return "refused"
    return "taken"


kept = []


def keep(size):
    """Hold on to memory, as a cache would; say how often this process has."""
    kept.append(bytearray(size))
    return len(kept)


def nothing():
    pass


def fail():
    raise OSError("this machine is broken")


def wait(seconds):
    """Take wall-clock time and no CPU time, as a job does whose processor is busy with others."""
    time.sleep(seconds)
    return "waited"


def burn():
    """Take CPU time without end, inside one operation of the interpreter: no handler of a signal would be run."""
    return 3 ** (10**9)


def stop():
    """Take no time of any kind, for ever."""
    os.kill(os.getpid(), signal.SIGSTOP)


def burn_in_company(folder, name, other):
    """Miss the deadline at the first try, which the other's runs beside; then return whether it runs alone."""
    first_try, running = Path(folder, name), Path(folder, "running")
    if not first_try.exists():
        first_try.touch()
        while not Path(folder, other).exists():
            time.sleep(0.01)
        burn()
    try:
        running.touch(exist_ok=False)
    except FileExistsError:
        return "in company"
    time.sleep(0.5)
    running.unlink()
    return "alone"


def burn_at_first(folder, name):
    """Miss the deadline at the first try only."""
    first_try = Path(folder, name)
    if not first_try.exists():
        first_try.touch()
        burn()
    return "done"
