"""Analyses runs on the validation split: their gain in the last quarter, and the effect of stopping earlier."""

from bisect import bisect_left
from collections.abc import Mapping
from statistics import mean
from typing import Any

import numpy as np
from scipy import stats

from experiments.evidence.pairs import BASELINE, Arms, pairs_of
from experiments.lab.tables import markdown_table


def last_quarter(arms: Arms, measures: Mapping[str, str]) -> str:
    """Return a table of each arm's gain in the last quarter of its tokens, and of its difference to the baseline."""
    rows = []
    for arm, runs in arms.items():
        pairs, cells = pairs_of(arms, arm), []
        for measure in measures.values():
            more = [_gained(runs[p].record, measure) - _gained(arms[BASELINE][p].record, measure) for p in pairs]
            half = stats.t.ppf(0.975, len(more) - 1) * stats.sem(more)
            against = "" if arm == BASELINE else f" ({mean(more):+.3f} ±{half:.3f})"
            cells.append(f"{mean(_gained(run.record, measure) for run in runs.values()):+.3f}{against}")
        rows.append([arm, str(len(runs)), *cells])
    return markdown_table(["arm", "runs", *measures], rows)


def _gained(run: dict[str, Any], measure: str) -> float:
    course, rollouts = run["validation"][measure], run["rollouts"]
    tokens = rollouts["generated_tokens"]
    step = rollouts["step"][bisect_left(tokens, 0.75 * tokens[-1])]
    steps, values, _ = zip(*course, strict=True)
    return values[-1] - float(np.interp(step, steps, values))


def stopped_as_accurate(arms: Arms, arm: str, accuracy: str, solved: str) -> str:
    """Return by how many points of `solved` the arm's end exceeds the baseline stopped at the same accuracy."""
    more = []
    for pair in pairs_of(arms, arm):
        ours, theirs = (arms[name][pair].record["validation"] for name in (arm, BASELINE))
        end = ours[accuracy][-1][1]
        reached = [value for _, value, _ in theirs[accuracy]]
        i = next((i for i, value in enumerate(reached) if value >= end), len(reached) - 1)
        values = [value for _, value, _ in theirs[solved]]
        share = min(1.0, (end - reached[i - 1]) / (reached[i] - reached[i - 1])) if i else 0.0
        more.append(ours[solved][-1][1] - values[i - 1] - share * (values[i] - values[i - 1]))
    half = stats.t.ppf(0.975, len(more) - 1) * stats.sem(more)
    return f"{100 * mean(more):.1f} ±{100 * half:.1f}"
