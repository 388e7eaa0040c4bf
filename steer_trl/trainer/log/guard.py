"""A diagnostic ends no training: what goes wrong in one is reported once a run, and its numbers are missing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)
_reported: WeakKeyDictionary[GRPOTrainer, set[str]] = WeakKeyDictionary()


@contextmanager
def guard(trainer: GRPOTrainer, lost: str) -> Iterator[None]:
    """Let no error out. The first of a run that costs what is `lost` is a warning; the same on each rank."""
    try:
        yield
    except Exception as error:
        reported = _reported.setdefault(trainer, set())
        if lost not in reported:  # not by the error's text: each one names other numbers of bytes
            reported.add(lost)
            logger.warning("%s, and is not in the log: %r", lost, error)
