"""Helpers for what all ranks must do together, although it depends on one rank's data or files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

from steer_trl.support.exceptions import CannotContinueError


@contextmanager
def raise_together(accelerator: Accelerator) -> Iterator[None]:
    """Raise on every rank if the `with` block raises on any rank, so that no rank waits for another. Collective.

    A rank on which the block has not failed raises `CannotContinueError` with the text of another rank's error.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as raised:
        error = raised
    texts = [str(error)] if error is not None else []
    if accelerator.num_processes > 1:
        texts = gather_object(texts)
    if error is not None:
        raise error
    if texts:
        raise CannotContinueError(f"Another process cannot go on: {texts[0]}")


def read_on_main(accelerator: Accelerator, read: Callable[[], Any]) -> Any:
    """Return on every rank what `read` returns on the main process, because other machines may lack its files.

    Collective.
    """
    content = None
    with raise_together(accelerator):
        content = read() if accelerator.is_main_process else None
    return broadcast_object_list([content])[0]
