"""Files that a killed run leaves whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_whole(path: Path, save: Callable[[Path], Any]) -> None:
    """Let `save` write a file beside `path`, then put it in its place."""
    partial = path.with_name(f"_{path.name}.partial")  # Transformers leaves what begins with _ out of a push
    save(partial)
    os.replace(partial, path)
