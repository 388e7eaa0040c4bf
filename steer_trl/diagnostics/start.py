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
    truncated: float | None = None
    for entry in entries:
        entry = of_tokens(entry, truncated)
        truncated = last_truncated(entry, truncated)
        keys = (names.START_ENTROPY,) if before is not None else (names.START_ENTROPY, *names.ENTROPIES)
        before = next((float(entry[key]) for key in keys if _is_finite(entry.get(key))), before)
    return before


def of_tokens(entry: Mapping[str, Any], truncated: float | None = None) -> Mapping[str, Any]:
    """Drop the entropy that TRL logs as 0 when every completion is truncated and masked.

    TRL logs the truncated share at a rollout's first step only. `truncated` is the last one that was logged before.
    """
    is_of_no_token = entry.get(names.ENTROPY) == 0 and last_truncated(entry, truncated) == 1
    return {key: value for key, value in entry.items() if key != names.ENTROPY} if is_of_no_token else entry


def last_truncated(entry: Mapping[str, Any], before: float | None) -> float | None:
    """Return the share of truncated completions in an entry, or the one known `before` if it has none."""
    share = entry.get(names.CLIPPED_RATIO)
    return before if share is None else share


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)
