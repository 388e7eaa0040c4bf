"""Files that a killed run leaves whole or not at all, and reading that waits for nobody."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from steer_trl.exceptions import UnusableFileError


def write_whole(path: Path, save: Callable[[Path], Any]) -> None:
    """Let `save` write a file beside `path`, then put it in its place; what fails leaves nothing behind."""
    partial = path.with_name(f"_{path.name}.partial")  # Transformers leaves what begins with _ out of a push
    try:
        save(partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        `OSError`: there is none, or it is a pipe, a device or a folder, which could be read for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnusableFileError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")
