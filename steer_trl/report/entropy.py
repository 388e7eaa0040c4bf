"""Describes how a run's entropy develops: whether it is held at its target, and whether it rises or falls.

    held    |m / target - 1| <= 0.1 and |e / target - 1| <= 0.1

m is the mean entropy over the last quarter of the log. e is the mean over the last tenth, or over the last ten entries
if the tenth is longer. The entropy rises or falls if its mean over the second half of the last quarter is more than
3 % above or below its mean over the first half.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from steer_trl.diagnostics.keys import names
from steer_trl.diagnostics.start import start_entropy
from steer_trl.report.read import Run

BAND = 0.1
NOISE = 0.03


def describe_entropy(run: Run) -> dict[str, Any] | None:
    """Return a description of how the entropy develops, or `None` if no entropy was logged.

    The description has the `key` of the entropy in the log, its initial value `start` and its `target`, both in nats
    per token, the boolean `is_held`, and a `phrase` for the page.
    """
    key = next((name for name in names.ENTROPIES if name in run.curves), None)
    if key is None:
        return None
    values = [value for _, value in sorted(run.curves[key].items())]
    quarter = values[-max(1, len(values) // 4) :]
    level = fmean(quarter)
    end = mean_of_end(values)
    start = _find_start(run)
    target = _last_value(run, names.HELD_TARGET)
    late = fmean(quarter[len(quarter) // 2 :])
    movement = late / fmean(quarter[: len(quarter) // 2] or quarter) - 1 if level else 0.0
    direction = ""
    if abs(movement) > NOISE:
        direction = ", rising" if movement > 0 else ", falling"
    is_held = False
    if not target:
        change = f", {end / start - 1:+.0%}" if start else ""
        phrase = f"{start:.3g} → {end:.3g}{change}{direction}" if start else f"{end:.3g} at the end{direction}"
        if run.settings.get("hold_entropy") is not None:
            phrase += ", not held: its level is not known yet"
    else:
        distance = level / target - 1
        is_held = max(abs(distance), abs(end / target - 1)) <= BAND
        reference = _last_value(run, names.HELD_REFERENCE) or target
        if is_held:
            phrase = f"held at {level:.3g}, target {target:.3g} ({distance:+.0%})"
        elif abs(reference / target - 1) > BAND:
            phrase = f"{end:.3g} at the end, on its way to its target {target:.3g}"
        else:
            side = "above" if end > target else "below"
            phrase = f"{end:.3g} at the end, {abs(end / target - 1):.0%} {side} its target {target:.3g}{direction}"
    return {"key": key, "start": start, "target": target, "is_held": is_held, "phrase": phrase}


def mean_of_end(values: Sequence[float]) -> float:
    """Return the mean of the last tenth of `values`, or of the last ten values if the tenth is longer."""
    count = max(1, min(10, len(values) // 10))
    return fmean(values[-count:])


def _find_start(run: Run) -> float:
    needed = (names.START_ENTROPY, *names.ENTROPIES, names.CLIPPED_RATIO)
    keys = [key for key in needed if key in run.curves]
    steps = sorted({step for key in keys for step in run.curves[key]})
    return start_entropy({key: run.curves[key].get(step) for key in keys} for step in steps) or 0.0


def _last_value(run: Run, key: str) -> float | None:
    curve = run.curves.get(key)
    return curve[max(curve)] if curve else None
