"""Reads the initial and the final entropy of a run from its log."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from steer_trl.monitoring import key_names
from steer_trl.support.validation import is_number

WINDOW = 10
"""The final entropy is the mean over this many log entries at the end of a run, because a single entry is noisy."""


def start_entropy(entries: Iterable[Mapping[str, Any]], before: float | None = None) -> float | None:
    """Return the initial entropy of a run, in nats per token, or `None` if it is unknown.

    The initial entropy is the last value of `rollout_entropy/start` (`steer_trl/entropy/start.py`) in `entries`, which
    are entries of the log. If there is no such value, it is `before`, which is the initial entropy from earlier
    entries. If `before` is `None`, it is the first entropy in `entries`.
    """
    truncated: float | None = None
    for entry in entries:
        entry = drop_empty_entropy(entry, truncated)
        truncated = find_truncated(entry, truncated)
        keys = (key_names.START_ENTROPY,) if before is not None else (key_names.START_ENTROPY, *key_names.ENTROPIES)
        before = next((float(entry[key]) for key in keys if _is_finite(entry.get(key))), before)
    return before


def drop_empty_entropy(entry: Mapping[str, Any], truncated: float | None = None) -> Mapping[str, Any]:
    """Drop the entropy that TRL logs as 0 when every completion is truncated and masked.

    TRL logs the share of truncated completions only at the first step of a rollout. `truncated` is the last share that
    was logged before this entry.
    """
    is_of_no_token = entry.get(key_names.ENTROPY) == 0 and find_truncated(entry, truncated) == 1
    return {key: value for key, value in entry.items() if key != key_names.ENTROPY} if is_of_no_token else entry


def find_truncated(entry: Mapping[str, Any], before: float | None) -> float | None:
    """Return an entry's share of truncated completions, or `before` if the entry does not have it."""
    share = entry.get(key_names.CLIPPED_RATIO)
    return before if share is None else share


def entropy_ends(log_history: Iterable[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return the initial and the final entropy of a run in nats per token, or `None` if no entropy was logged.

    The final entropy is the mean over the last `WINDOW` log entries that have an entropy.
    """
    entries = list(log_history)
    entropies = [entry[key_names.ENTROPY] for entry in entries if entry.get(key_names.ENTROPY) is not None]
    start = start_entropy(entries)
    if not entropies or start is None:
        return None
    last = entropies[-WINDOW:]
    return start, math.fsum(last) / len(last)


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)
