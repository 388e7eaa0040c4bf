"""Explains an error that a full disk caused, so that the user knows what is saved and how to go on.

Libraries report a full disk in different ways. Most pass on the error of the operating system. `torch.save` does not,
so if an error comes from saving, the free space is looked at as well.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

from steer_trl.monitoring.run_files import find_checkpoints
from steer_trl.support.exceptions import CannotContinueError, SteerError
from steer_trl.trainer.checkpoints.where_to_resume import is_complete

ERRORS = (errno.ENOSPC, errno.EDQUOT)
TEXTS = ("No space left on device", "Disk quota exceeded")
"""The operating system's messages, which libraries in other languages put into errors of their own."""
SAVING = {"_save_checkpoint", "save_model"}
"""Functions of Transformers that save."""
LITTLE = 2**20
"""With less free space than this, in bytes, a disk counts as full."""


@contextmanager
def explain_full_disk(output_dir: str) -> Iterator[None]:
    """Replace an error that a full disk has caused inside the `with` block. All other errors are passed on."""
    try:
        yield
    except SteerError:
        raise
    except Exception as error:
        folder = next(path for path in [Path(output_dir), *Path(output_dir).absolute().parents] if path.is_dir())
        free = shutil.disk_usage(folder).free
        is_saving = any(frame.f_code.co_name in SAVING for frame, _ in walk_tb(error.__traceback__))
        if not (_says_full(error) or (is_saving and free < LITTLE)):
            raise
        raise CannotContinueError(_explain(Path(output_dir), free)) from error


def _says_full(error: BaseException | None) -> bool:
    """Return whether an error, or one that led to it, is the operating system's error about a full disk."""
    while error is not None:
        if getattr(error, "errno", None) in ERRORS or any(text in str(error) for text in TEXTS):
            return True
        error = error.__cause__ or error.__context__
    return False


def _explain(folder: Path, free: int) -> str:
    checkpoints = find_checkpoints(folder)
    complete = [path.name for path in checkpoints if is_complete(path)]
    incomplete = [path.name for path in checkpoints if path.name not in complete]
    text = f"The disk of output_dir={str(folder)!r} is full: {free / LITTLE:.0f} MiB are free. "
    if incomplete:
        text += f"Not complete, and safe to remove: {', '.join(incomplete)}. "
    if not complete:
        return f"{text}No checkpoint is complete. Make room, and start the run again."
    return (
        f"{text}Complete: {', '.join(complete)}. Make room, and continue with resume_from_checkpoint='auto'. "
        "save_total_limit keeps only the last checkpoints."
    )
