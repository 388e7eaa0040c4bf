"""What a user did wrong is one line on stderr, `steer-trl train: error: ...`, and exit code 2; never a traceback.

Several mistakes are several such lines, and of several processes each prints its own. What this package raises on
purpose (`exceptions.py`) is such a line wherever it comes from; before the training so is what a library says of a
wrong input. All else is a crash, which keeps its traceback, and so does everything with `STEER_TRL_TRACEBACK=1`.
"""

import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from safetensors import SafetensorError
from tqdm import tqdm

from steer_trl.exceptions import InvalidValueError, SteerError
from steer_trl.validation import did_you_mean

TRACEBACK = "STEER_TRL_TRACEBACK"
HINT = f"({TRACEBACK}=1 shows where)"
# What libraries raise for a wrong input. Others, such as an AttributeError, are crashes.
OF_LIBRARIES = (ValueError, TypeError, OSError, ImportError, RuntimeError, NotImplementedError, SafetensorError)
MISUSE, INTERRUPTED, PIPE_CLOSED = 2, 130, 141
PATIENCE = 30
"""Seconds that a process other than the first waits before it prints an error."""


class OneLineParser(ArgumentParser):
    """A parser whose errors are one line, without the usage of three hundred flags."""

    def parse_args(self, *args: Any, **named: Any) -> Any:
        """Parse as usual, and suggest a flag for one that does not exist."""
        known, unknown = self.parse_known_args(*args, **named)
        if unknown:
            hint = did_you_mean(unknown[0], [*self._option_string_actions])
            self.error(f"unexpected argument {unknown[0]!r}.{hint} {self.prog} --help lists the flags.")
        return known

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        raise InvalidValueError(message)


@contextmanager
def one_line(program: str) -> Iterator[None]:
    """Turn what goes wrong inside into lines on stderr that begin with `program`, and an exit code.

    It is 2 after a user's mistake, 130 after Ctrl-C, 141 if nobody reads the output any more.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed at exit
        raise SystemExit(PIPE_CLOSED) from None
    except KeyboardInterrupt:
        say(f"{program}: stopped: interrupted")
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        if os.environ.get(TRACEBACK, "0") not in ("", "0") or not is_of_users(error):
            raise
        rank = os.environ.get("RANK", "0")
        process = ""
        if rank != "0":
            # Process 0 nearly always has the same error: its launcher ends this process once that is printed.
            time.sleep(PATIENCE)
            process = f" [process {rank}]"
        for line in getattr(error, "complaints", [str(error) or type(error).__name__]):
            hint = "" if isinstance(error, SteerError) else f" {HINT}"
            say(f"{program}: error{process}: {' '.join(line.split())}{hint}")
        raise SystemExit(MISUSE) from None


@contextmanager
def training() -> Iterator[None]:
    """Mark what goes wrong inside as a crash, unless it is raised on purpose: models and reward functions run here."""
    try:
        yield
    except Exception as error:
        vars(error)["is_crash"] = not isinstance(error, SteerError)
        raise


def is_of_users(error: Exception) -> bool:
    """Whether `error` tells a user what to correct, so that a traceback would only hide it."""
    if isinstance(error, SteerError):
        return True
    is_ours_to_mend = isinstance(error, ImportError) and str(error.name).startswith("steer_trl")
    return isinstance(error, OF_LIBRARIES) and not is_ours_to_mend and not getattr(error, "is_crash", False)


def say(line: str) -> None:
    """Print a line on stderr, not behind a progress bar that is still open."""
    tqdm.write(line, file=sys.stderr)
