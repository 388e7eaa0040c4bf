"""Describes how a run's entropy develops: whether it is held at its target, and whether it rises or falls.

    held    |m / target - 1| <= 0.1 and |e / target - 1| <= 0.1

m is the mean entropy over the last quarter of the log. e is the mean over the last tenth, or over the last ten entries
if the tenth is longer. The entropy rises or falls if its mean over the second half of the last quarter is more than
3 % above or below its mean over the first half. If the target fell at the end of the run, *held* is about the part of
the log before it fell, and the quarter and the tenth are those of this part.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from steer_trl.monitoring import key_names
from steer_trl.monitoring.release import find_release
from steer_trl.monitoring.start import start_entropy
from steer_trl.report.read import Run

BAND = 0.1
NOISE = 0.03


def describe_entropy(run: Run) -> dict[str, Any] | None:
    """Return a description of how the entropy develops, or `None` if no entropy was logged.

    The description has the `key` of the entropy in the log, its initial value `start` and its `target` while it was
    held, both in nats per token, the boolean `is_held`, and a `phrase` for the page.
    """
    key = next((name for name in key_names.ENTROPIES if name in run.curves), None)
    if key is None:
        return None
    entropies = sorted(run.curves[key].items())
    values = [value for _, value in entropies]
    release = find_release(sorted(run.curves.get(key_names.HELD_TARGET, {}).items()))
    start = _find_start(run)
    target = _last_value(run, key_names.HELD_TARGET) if release is None else release.level
    is_held = False
    if not target:
        end = mean_of_end(values)
        change = f", {end / start - 1:+.0%}" if start else ""
        phrase = f"{start:.3g} → {end:.3g}{change}" if start else f"{end:.3g} at the end"
        phrase += _find_direction(values)
        if run.settings.get("hold_entropy") is not None:
            phrase += ", not held: its level is not known yet"
    elif release is None:
        reference = _last_value(run, key_names.HELD_REFERENCE) or target
        is_held, phrase = _compare_with_target(values, target, reference, "at the end")
    else:
        held = [value for step, value in entropies if step <= release.step] or values[:1]
        is_held, phrase = _compare_with_target(held, target, target, f"at step {release.step}")
        phrase += f"; then let go, {mean_of_end(values):.3g} at the end, target {release.final:.3g}"
    return {"key": key, "start": start, "target": target, "is_held": is_held, "phrase": phrase}


def _compare_with_target(values: Sequence[float], target: float, reference: float, when: str) -> tuple[bool, str]:
    """Return whether the entropies `values` were held at a `target`, and a phrase about it.

    `reference` is the present setpoint, which may be on its way to the target. `when` is where the values end.
    """
    level = fmean(_last_quarter(values))
    end = mean_of_end(values)
    distance = level / target - 1
    if max(abs(distance), abs(end / target - 1)) <= BAND:
        return True, f"held at {level:.3g}, target {target:.3g} ({distance:+.0%})"
    if abs(reference / target - 1) > BAND:
        return False, f"{end:.3g} {when}, on its way to its target {target:.3g}"
    side = "above" if end > target else "below"
    direction = _find_direction(values)
    return False, f"{end:.3g} {when}, {abs(end / target - 1):.0%} {side} its target {target:.3g}{direction}"


def _find_direction(values: Sequence[float]) -> str:
    """Return whether the entropy rises or falls over its last quarter, for the end of a phrase."""
    quarter = _last_quarter(values)
    early = fmean(quarter[: len(quarter) // 2] or quarter)
    late = fmean(quarter[len(quarter) // 2 :])
    movement = late / early - 1 if early else 0.0
    if abs(movement) <= NOISE:
        return ""
    return ", rising" if movement > 0 else ", falling"


def _last_quarter(values: Sequence[float]) -> Sequence[float]:
    return values[-max(1, len(values) // 4) :]


def mean_of_end(values: Sequence[float]) -> float:
    """Return the mean of the last tenth of `values`, or of the last ten values if the tenth is longer."""
    count = max(1, min(10, len(values) // 10))
    return fmean(values[-count:])


def _find_start(run: Run) -> float:
    keys_of_start = (key_names.START_ENTROPY, *key_names.ENTROPIES, key_names.CLIPPED_RATIO)
    keys = [key for key in keys_of_start if key in run.curves]
    steps = sorted({step for key in keys for step in run.curves[key]})
    return start_entropy({key: run.curves[key].get(step) for key in keys} for step in steps) or 0.0


def _last_value(run: Run, key: str) -> float | None:
    curve = run.curves.get(key)
    return curve[max(curve)] if curve else None
