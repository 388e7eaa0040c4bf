"""Prints a user's mistake as one line on stderr, `steer-trl train: error: ...`, and exits with code 2.

If there are several mistakes, each is printed on a line of its own. Errors that this package raises on purpose
(`support/exceptions.py`) are always printed this way. So are input errors that libraries raise before training begins,
such as `ValueError` and `OSError`, and errors of the Hub, which a machine without network meets. Any other error is a
crash and keeps its traceback. With `STEER_TRL_TRACEBACK=1`, every error keeps its traceback.
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

from steer_trl.report.hub_errors import is_from_hub
from steer_trl.support.exceptions import InvalidValueError, SteerError
from steer_trl.support.validation import did_you_mean

TRACEBACK = "STEER_TRL_TRACEBACK"
NO_HUB = (
    "This came from the Hugging Face Hub. Check the network and the access (hf auth login); without a network, name "
    "local folders and files, and leave out --push_to_hub."
)
HINT = f"({TRACEBACK}=1 shows where)"
# Libraries raise these errors for wrong input. Any other error, such as an AttributeError, is a crash.
OF_LIBRARIES = (ValueError, TypeError, OSError, ImportError, RuntimeError, NotImplementedError, SafetensorError)
MISUSE, INTERRUPTED, PIPE_CLOSED = 2, 130, 141
PATIENCE = 30
"""Number of seconds that every process except the first waits before it prints an error."""


class OneLineParser(ArgumentParser):
    """A parser that reports an error on one line and does not print its usage."""

    def parse_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the arguments. Refuse a flag that does not exist, and suggest a similar one."""
        namespace, unknown = self.parse_known_args(*args, **kwargs)
        if unknown:
            hint = did_you_mean(unknown[0], [*self._option_string_actions])
            self.error(f"unexpected argument {unknown[0]!r}.{hint} {self.prog} --help lists the flags.")
        return namespace

    def error(self, message: str) -> NoReturn:
        """Raise the message as an error, instead of printing it below the usage."""
        raise InvalidValueError(message)


@contextmanager
def report_errors(program: str) -> Iterator[None]:
    """Print an error from inside the `with` block as lines that begin with `program`, and exit.

    The exit code is 2 after a user's mistake, 130 after Ctrl-C, and 141 if the output goes to a pipe that was closed.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
            # Process 0 nearly always has the same error. It prints the error and exits, and then the launcher ends
            # this process, so that the error is printed once.
            time.sleep(PATIENCE)
            process = f" [process {rank}]"
        for line in getattr(error, "complaints", [str(error) or type(error).__name__]):
            hint = "" if isinstance(error, SteerError) else f" {HINT}"
            remedy = f" {NO_HUB}" if is_from_hub(error) else ""
            say(f"{program}: error{process}: {' '.join(line.split())}{remedy}{hint}")
        raise SystemExit(MISUSE) from None


@contextmanager
def mark_crashes() -> Iterator[None]:
    """Mark errors inside the `with` block as crashes unless this package raises them on purpose.

    Models and reward functions run inside the block, so a `ValueError` in it need not come from a wrong setting.
    """
    try:
        yield
    except Exception as error:
        vars(error)["is_crash"] = not isinstance(error, SteerError)
        raise


def is_of_users(error: Exception) -> bool:
    """Return whether `error` reports a mistake that the user can correct, so that it needs no traceback."""
    if isinstance(error, SteerError):
        return True
    if is_from_hub(error) and not getattr(error, "is_crash", False):
        return True
    is_ours_to_mend = isinstance(error, ImportError) and str(error.name).startswith("steer_trl")
    return isinstance(error, OF_LIBRARIES) and not is_ours_to_mend and not getattr(error, "is_crash", False)


def say(line: str) -> None:
    """Print a line on stderr. If a progress bar is open, the line appears above it."""
    tqdm.write(line, file=sys.stderr)
