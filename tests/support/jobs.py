"""What the worker processes of a test are given to do; apart, so that they need not load what the test loads."""

import os


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
