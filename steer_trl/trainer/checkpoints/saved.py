"""Names and reads the files that this package adds to a checkpoint.

If a file is damaged, the error names it.
"""

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from steer_trl.support.exceptions import CannotContinueError, InvalidValueError

STATE_FILE = "shaping_state.json"
ROLLOUT_FILE = "rollout_{rank}_of_{ranks}.pt"
SAMPLING_FILE = "dynamic_sampling.pt"
OF_TRANSFORMERS = ("optimizer.pt", "scheduler.pt", "rng_state*.pth")
"""The files that Transformers writes with `torch.save` to a checkpoint."""
WEIGHTS = "*.safetensors"
CONFIGS = ("config.json", "adapter_config.json", "*.safetensors.index.json")
OPTIMIZERS = ("optimizer.pt", "optimizer.bin", "optimizer_*", "global_step*")
"""The names under which Transformers, FSDP and DeepSpeed save an optimizer."""


def read_state(folder: Path) -> dict[str, Any]:
    """Return the contents of `shaping_state.json` in a checkpoint.

    The result is empty if TRL's own trainer saved the checkpoint.
    """
    path = folder / STATE_FILE
    return _read(path, lambda: _parse_mapping(path)) if path.exists() else {}


def read_tensors(path: Path) -> Any:
    """Load a file that `torch.save` wrote, with all tensors on the CPU. No code in the file is run."""
    return _read(path, lambda: torch.load(path, map_location="cpu", weights_only=True))


def are_whole(folder: Path) -> bool:
    """Return whether this package's files in a checkpoint, and those that Transformers reads, are complete."""
    try:
        read_state(folder)
    except CannotContinueError:
        return False
    return find_torn(folder) is None


def find_torn(folder: Path) -> Path | None:
    """Return a file of a checkpoint that was not written to its end; `None` if there is none.

    These are the weights, their configuration, and what `torch.save` wrote.
    """
    zipped = (ROLLOUT_FILE.format(rank="*", ranks="*"), SAMPLING_FILE, *OF_TRANSFORMERS)
    tests = dict.fromkeys(zipped, zipfile.is_zipfile) | {WEIGHTS: _has_tensors} | dict.fromkeys(CONFIGS, _is_json)
    paths = ((path, is_whole) for pattern, is_whole in tests.items() for path in sorted(folder.glob(pattern)))
    return next((path for path, is_whole in paths if not is_whole(path)), None)


def has_optimizer(folder: Path) -> bool:
    """Return whether a checkpoint has the state of an optimizer."""
    return any(path for pattern in OPTIMIZERS for path in folder.glob(pattern))


def _has_tensors(path: Path) -> bool:
    """Return whether a file of safetensors is as long as its header states. Only the header is read."""
    try:
        with safe_open(path, "pt"):
            return True
    except (OSError, SafetensorError):
        return False


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return True


@contextmanager
def name_file(path: Path, content: str) -> Iterator[None]:
    """Name the file in errors inside the `with` block, which restores `content` from it."""
    try:
        yield
    # A value of a wrong type may cause any error.
    except Exception as error:
        reason = str(error) if isinstance(error, InvalidValueError) else f"{type(error).__name__}: {error}"
        raise InvalidValueError(
            f"{path}: {content} cannot be restored: {reason}. Resume from an earlier checkpoint, or repair the file."
        ) from error


def _parse_mapping(path: Path) -> dict[str, Any]:
    state = json.loads(path.read_text())
    if not isinstance(state, dict):
        raise InvalidValueError(f"it must hold a mapping, got {str(state)[:60]!r}")
    return state


def _read(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:
        raise CannotContinueError(
            f"{path} cannot be read ({type(error).__name__}: {error}). Resume from an earlier checkpoint, or restore "
            "the file."
        ) from error
