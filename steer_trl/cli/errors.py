"""What a user did wrong is one line on stderr, `steer-trl train: error: ...`, and exit code 2; never a traceback.

Several mistakes are several such lines. What this package raises on purpose (`exceptions.py`) is such a line wherever
it comes from. Before the training so is what a library says of a wrong input, with a hint where to find out more. All
else is a crash, which keeps its traceback, and so does everything with `STEER_TRL_TRACEBACK=1`. Of several processes
each leaves its lines in the folder that `STEER_TRL_FAILURES` names, and the one that started them says every line once
(`launch.py`).
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from tqdm import tqdm

from steer_trl.exceptions import SteerError

TRACEBACK, FAILURES = "STEER_TRL_TRACEBACK", "STEER_TRL_FAILURES"
SAID, CRASHED = ".txt", ".crash"
HINT = f"({TRACEBACK}=1 shows where)"
# What libraries raise for a wrong input. Others, such as an AttributeError, are crashes.
OF_LIBRARIES = (ValueError, TypeError, OSError, ImportError, RuntimeError, NotImplementedError, SafetensorError)
MISUSE, INTERRUPTED, PIPE_CLOSED = 2, 130, 141


class Failed(SteerError):
    """Started processes have failed, and `lines` say why; the exit code is theirs."""

    def __init__(self, lines: Sequence[str], code: int = MISUSE) -> None:
        super().__init__("\n".join(lines))
        self.lines, self.code = lines, code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lines, self.code), vars(self)


@contextmanager
def one_line(program: str) -> Iterator[None]:
    """Turn what goes wrong inside into lines on stderr that begin with `program`, and an exit code.

    Raises:
        `SystemExit`: with 2 after a user's mistake, 130 after Ctrl-C, 141 if nobody reads the output any more.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed at exit
        raise SystemExit(PIPE_CLOSED) from None
    except KeyboardInterrupt:
        _say(["interrupted"], program, kind="stopped")
        raise SystemExit(INTERRUPTED) from None
    except Failed as failure:
        _say(failure.lines, program)
        raise SystemExit(failure.code) from None
    except Exception as error:
        if wants_traceback() or not is_of_users(error):
            _leave(CRASHED, [])
            raise
        _say(sentences(error), program)
        raise SystemExit(MISUSE) from None


@contextmanager
def training() -> Iterator[None]:
    """Mark what goes wrong inside as a crash, unless it is raised on purpose: models and reward functions run here."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, SteerError):
            vars(error)["is_crash"] = True
        raise


def is_of_users(error: Exception) -> bool:
    """Whether `error` tells a user what to correct, so that a traceback would only hide it."""
    if isinstance(error, SteerError):
        return True
    is_ours_to_mend = isinstance(error, ImportError) and str(error.name).startswith("steer_trl")
    return isinstance(error, OF_LIBRARIES) and not is_ours_to_mend and not getattr(error, "is_crash", False)


def wants_traceback() -> bool:
    """Whether the environment asks for tracebacks."""
    return os.environ.get(TRACEBACK, "0") not in ("", "0")


def sentences(error: Exception) -> list[str]:
    """Return the lines of an error: one for each complaint; that of a library with a hint where to find out more."""
    complaints: list[str] | None = getattr(error, "complaints", None)
    if complaints is not None:
        return [_flat(complaint) for complaint in complaints]
    text = _flat(str(error)) or type(error).__name__
    return [text if isinstance(error, SteerError) else f"{text} {HINT}"]


def _say(lines: Sequence[str], program: str, kind: str = "error") -> None:
    if _leave(SAID, lines):
        return
    rank = os.environ.get("RANK", "0")
    process = f" [process {rank}]" if rank != "0" else ""
    for line in lines:
        tqdm.write(f"{program}: {kind}{process}: {line}", file=sys.stderr)  # not behind a bar that is still open


def _leave(suffix: str, lines: Sequence[str]) -> bool:
    """Leave `lines` for the process that has started this one; `False` if there is none."""
    folder = os.environ.get(FAILURES)
    if not folder or not Path(folder).is_dir():
        return False
    Path(folder, os.environ.get("RANK", "0") + suffix).write_text("".join(f"{line}\n" for line in lines))
    return True


def _flat(text: str) -> str:
    return " ".join(text.split())
