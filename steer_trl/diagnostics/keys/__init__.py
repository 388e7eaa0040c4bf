"""The registry of the log: a row for each key, with its unit, its estimator, what it says, and who reads it.

    names.py            the keys that other code reads, as constants
    row.py              what a row has, and a panel
    outcome.py          what the run does: entropy, reward, evaluation, groups, lengths
    method.py           how the method acts: weights, gate, strength, quadrants, the change of the entropy
    optimisation.py     clipped tokens, loss, gradient, engines, impossible numbers

A key is named here and in the code that computes it, and nowhere else by hand; `tests/diagnostics/test_keys.py` holds
the two together. From here come `docs/metrics.md` (`make metrics`), the panels of the report and their texts, the
picture of `curves.py`, what the alarms read, and the sums of an optimizer step. Nothing here imports torch.
"""

import re

from steer_trl.diagnostics.keys import method, optimisation, outcome
from steer_trl.diagnostics.keys.row import Key, Panel

PANELS: tuple[Panel, ...] = (*outcome.PANELS, *method.PANELS, *optimisation.PANELS)
"""The panels of the report page, in its order."""

KEYS: tuple[Key, ...] = (
    *(key for panel in PANELS for key in panel.keys),
    *(*outcome.UNDRAWN, *method.UNDRAWN, *optimisation.UNDRAWN),
)
"""Every row: those that a panel draws, then the others."""

SUMMED = {key.name: key.estimator for key in KEYS if key.estimator is not None}
"""The keys of an optimizer step's sums, and their estimators: the same on every rank, whatever fails on one."""

READ_BY_ALARMS = frozenset(key.name for key in KEYS if key.alarms and not key.family)
FAMILIES_READ = tuple(re.compile(key.name) for key in KEYS if key.alarms and key.family)
"""The keys, and families of keys, that the alarms read."""


def is_read_by_alarms(key: str) -> bool:
    """Whether an alarm reads this key of the log."""
    return key in READ_BY_ALARMS or any(family.fullmatch(key) for family in FAMILIES_READ)


__all__ = ["KEYS", "PANELS", "SUMMED", "Key", "Panel", "is_read_by_alarms"]
