"""Keeps a failing diagnostic from stopping a training run. It is reported once, and its numbers are not logged."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)
_reported: WeakKeyDictionary[GRPOTrainer, set[str]] = WeakKeyDictionary()


@contextmanager
def guard(trainer: GRPOTrainer, lost: str) -> Iterator[None]:
    """Suppress any error inside the `with` block, and warn once per trainer. `lost` is the text of the warning."""
    try:
        yield
    except Exception as error:
        reported = _reported.setdefault(trainer, set())
        # Errors are not told apart by their texts, which may differ each time, for example in a number of bytes.
        if lost not in reported:
            reported.add(lost)
            logger.warning("%s, and is not in the log: %r", lost, error)
