"""What the validation split shows of a run: whether it has stalled, and what an early stop would keep."""

from bisect import bisect_left
from collections.abc import Mapping
from statistics import mean
from typing import Any

import numpy as np

from steer_trl.evaluation.summary import markdown_table


def last_quarter(records: Mapping[str, list[dict[str, Any]]], measures: Mapping[str, str]) -> str:
    """What each arm gained over the last quarter of its tokens, mean over its runs."""
    rows = []
    for arm, runs in records.items():
        gained = [mean(_gained(run, measure) for run in runs) for measure in measures.values()]
        rows.append([arm, str(len(runs)), *(f"{value:+.3f}" for value in gained)])
    text = (
        "### Have they stalled?\n\nWhat was gained on the validation split over the last quarter of the tokens, "
        "evaluations interpolated.\n\n"
    )
    return text + markdown_table(["arm", "runs", *measures], rows) if rows else ""


def _gained(run: dict[str, Any], measure: str) -> float:
    course, rollouts = run["validation"][measure], run["rollouts"]
    tokens = rollouts["generated_tokens"]
    step = rollouts["step"][bisect_left(tokens, 0.75 * tokens[-1])]
    steps, values, _ = zip(*course, strict=True)
    return values[-1] - float(np.interp(step, steps, values))


def stopped_early(records: Mapping[str, list[dict[str, Any]]], measures: Mapping[str, str]) -> str:
    """Every arm where the mean of the measures was best on the validation split, mean over its runs."""
    rows = []
    for arm, runs in records.items():
        best = [_best(run, list(measures.values())) for run in runs]
        ends = [run["rollouts"]["step"][-1] for run in runs]
        shares = mean(step / end for (step, *_), end in zip(best, ends, strict=True))
        values = (mean(column) for column in list(zip(*best, strict=True))[1:])
        rows.append([arm, str(len(runs)), f"{shares:.0%}", *(f"{value:.3f}" for value in values)])
    text = (
        "### Stopped early\n\nEach run where the mean of the three measures was best on the validation split; the "
        "values are of that split too.\n\n"
    )
    return text + markdown_table(["arm", "runs", "of its steps", *measures], rows) if rows else ""


def _best(run: dict[str, Any], measures: list[str]) -> tuple[float, ...]:
    """The step of the evaluation with the best mean of the measures, and the measures there."""
    courses = [run["validation"][measure] for measure in measures]
    points = [(points[0][0], *(point[1] for point in points)) for points in zip(*courses, strict=True)]
    return max(points, key=lambda point: mean(point[1:]))
