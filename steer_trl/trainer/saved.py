"""Names and reads the files that this package adds to a checkpoint.

If a file is damaged, the error names it.
"""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from steer_trl.exceptions import CannotContinueError

STATE_FILE = "shaping_state.json"
ROLLOUT_FILE = "rollout_{rank}_of_{ranks}.pt"
SAMPLING_FILE = "dynamic_sampling.pt"


def read_state(folder: Path) -> dict[str, Any]:
    """Return the contents of `shaping_state.json` in a checkpoint.

    The result is empty if TRL's own trainer saved the checkpoint.
    """
    path = folder / STATE_FILE
    return _read(path, lambda: json.loads(path.read_text())) if path.exists() else {}


def read_tensors(path: Path) -> Any:
    """Load a file that `torch.save` wrote, with all tensors on the CPU. No code in the file is run."""
    return _read(path, lambda: torch.load(path, map_location="cpu", weights_only=True))


def are_whole(folder: Path) -> bool:
    """Return whether every file that this package added to a checkpoint is complete."""
    try:
        read_state(folder)
    except CannotContinueError:
        return False
    pattern = ROLLOUT_FILE.format(rank="*", ranks="*")
    saved_by_torch = [*folder.glob(SAMPLING_FILE), *folder.glob(pattern)]
    return all(zipfile.is_zipfile(path) for path in saved_by_torch)


def _read(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:
        raise CannotContinueError(
            f"{path} cannot be read ({type(error).__name__}: {error}). Resume from an earlier checkpoint, or restore "
            "the file."
        ) from error
