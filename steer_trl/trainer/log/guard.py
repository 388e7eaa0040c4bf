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
def guard(trainer: GRPOTrainer, lost: str) -> Iterator[None]:
    """Suppress any error inside the `with` block, and log a warning that begins with the text `lost`.

    `lost` states what could not be computed. A warning with the same text is logged only once per trainer.
    """
    try:
        yield
    except Exception as error:
        reported = _reported.setdefault(trainer, set())
        # Repeated warnings are recognised by `lost`, because the error's text may differ each time, for example in a
        # number of bytes.
        if lost not in reported:
            reported.add(lost)
            logger.warning("%s, and is not in the log: %r", lost, error)
