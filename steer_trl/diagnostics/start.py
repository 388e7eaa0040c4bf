"""The entropy that a run began with, as its log has it: what alarms, terminal, report and card compare with."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from steer_trl.diagnostics.keys import names
from steer_trl.validation import is_number


def start_entropy(entries: Iterable[Mapping[str, Any]], before: float | None = None) -> float | None:
    """Return the entropy that a run began with, nats per token; `None` where neither the log nor `before` has one.

    It is what the run logs as such last (`shaping/start_entropy.py`), or else the first entropy in its log.
    """
    for entry in map(of_tokens, entries):
        keys = (names.START_ENTROPY,) if before is not None else (names.START_ENTROPY, *names.ENTROPIES)
        before = next((float(entry[key]) for key in keys if _is_finite(entry.get(key))), before)
    return before


def of_tokens(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an entry without an entropy of no token: TRL logs 0 where all completions are cut off and hidden."""
    is_of_none = entry.get(names.ENTROPY) == 0 and entry.get(names.CLIPPED_RATIO) == 1
    return {key: value for key, value in entry.items() if key != names.ENTROPY} if is_of_none else entry


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)
