"""What is measured of a published run: how well its entropy was held, what it learned, and after how many tokens."""

import json
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from arms import PUBLISHED
from scipy import stats

from steer_trl.curves import series
from steer_trl.evaluation import comparison

SETTLED = 80  # rollouts
QUADRANTS = ("positive_surprising", "positive_expected", "negative_surprising", "negative_expected")

Run = dict[str, Any]


def load(folder: Path) -> dict[str, list[Run]]:
    """The published runs by arm, in the order of `PUBLISHED`, each arm's in the order of its seeds."""
    runs = [_run(json.loads(path.read_text())) for path in folder.glob("*.json")]
    found = {arm: sorted((r for r in runs if r["arm"] == arm), key=lambda run: run["seed"]) for arm in PUBLISHED}
    return {arm: runs for arm, runs in found.items() if runs}


def _run(record: dict[str, Any]) -> Run:
    """Make an entry for each rollout of the record's columns."""
    columns = record.pop("rollouts")
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return record | {"log": [{key: value for key, value in row.items() if value is not None} for row in rows]}


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval; the half width of a single value is infinite."""
    values = list(values)
    if len(values) < 2:
        return mean(values), float("inf")
    return mean(values), float(stats.t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5


def welch(values: list[float], others: list[float]) -> float:
    """Half width of the 95 % interval of the difference of two means, unpaired; infinite with a single value."""
    if min(len(values), len(others)) < 2:
        return float("inf")
    low, high = comparison.welch(np.array(values), np.array(others))
    return (high - low) / 2


def _held(run: Run) -> list[dict[str, float]]:
    """The rollouts that have a target."""
    return [entry for entry in run["log"] if "hold_entropy/target" in entry and "rollout_entropy" in entry]


def held_error(run: Run) -> tuple[float, float] | None:
    """Mean |H - H*| / H* and the share of rollouts within 10 %, after settling; `None` without a target."""
    points = _held(run)
    errors = [abs(e["rollout_entropy"] / e["hold_entropy/target"] - 1) for e in points[SETTLED:]]
    return (mean(errors), mean(error <= 0.1 for error in errors)) if errors else None


def settling(run: Run) -> int | None:
    """Rollouts until the mean of eight stays within 10 % of the target for the rest of its path; `None` if never."""
    points = _held(run)
    near = [
        abs(mean(e["rollout_entropy"] for e in points[max(0, i - 7) : i + 1]) / e["hold_entropy/target"] - 1) <= 0.1
        for i, e in enumerate(points)
    ]
    return near.index(True) if True in near else None


def judged(run: Run, metric: tuple[str, str], step: int | None = None) -> float:
    """A metric of the last evaluation, or of that at `step`."""
    points = [point for point in run["held_out"] if step is None or point["step"] == step]
    return points[-1][metric[0]][metric[1]][0]


def course(run: Run, metric: tuple[str, str]) -> list[tuple[float, float]]:
    """A metric of every evaluation, the start's first, over the tokens of all rollouts until then, in millions."""
    steps, totals = zip((0, 0), *series(run["log"], "num_tokens"), strict=True)
    points = [(totals[bisect_right(steps, point["step"]) - 1] / 1e6, point) for point in run["held_out"]]
    return [(at, point[metric[0]][metric[1]][0]) for at, point in [(0.0, run["start"]), *points]]


def at_tokens(run: Run, metric: tuple[str, str], millions: float) -> float:
    """A metric after so many tokens of all rollouts, on the straight line between two evaluations."""
    tokens, values = zip(*course(run, metric), strict=True)
    return float(np.interp(millions, tokens, values))


def entropy_at_tokens(run: Run, millions: float, window: int = 8) -> float:
    """Mean entropy of the last rollouts before so many tokens, nats per token."""
    before = [entry["entropy"] for entry in run["log"] if entry["num_tokens"] <= millions * 1e6]
    return mean(before[-window:])
