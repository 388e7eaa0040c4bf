"""Keeps a failing diagnostic from stopping a training run.

The failure is reported once, and the log lacks the numbers of that diagnostic.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)
_reported: WeakKeyDictionary[GRPOTrainer, set[str]] = WeakKeyDictionary()


@contextmanager
def ignore_failure(trainer: GRPOTrainer, message: str) -> Iterator[None]:
    """Suppress any error inside the `with` block, and log a warning that begins with `message`.

    `message` states what could not be computed. It is logged only once per trainer.
    """
    try:
        yield
    except Exception as error:
        reported = _reported.setdefault(trainer, set())
        # Only our message is compared, because the error's own text may change, for example in a number of bytes.
        if message not in reported:
            reported.add(message)
            logger.warning("%s, and is not in the log: %r", message, error)
