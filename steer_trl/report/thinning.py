"""Thins the curves of a run for the page, and first computes from all entries what the page says about them.

    running mean    the mean of the last w entries up to each entry, where w is a share of the curve's entries
    ends            the means of the first and of the last tenth of the entries, of ten entries at most
    token axis      the number of tokens so far at each step

The points that are kept cannot replace the entries in a mean, because most of them are the lowest or highest of a part
of the curve.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steer_trl.monitoring import key_names
from steer_trl.monitoring.keys import PANELS
from steer_trl.report.entropy import mean_of_end
from steer_trl.report.read import Run

POINTS = 400
"""Approximate maximum number of points of a curve."""
SMOOTHING = {"smooth": 0.04, "smoother": 0.15}
"""Maps each level of smoothing to the share of a curve's entries in a running mean."""
COARSE = dict.fromkeys(("as logged", *SMOOTHING), 0.2)
"""The same for curves of whole numbers, whose running mean is drawn at every level."""

TOKENS = (key_names.GENERATED_TOKENS, key_names.NUM_TOKENS)
"""The keys whose values can replace the steps on the horizontal axis."""


def describe_curves(run: Run) -> dict[str, dict[str, Any]]:
    """Return the thinned `curves` of a run, their running `means` and their `ends`, each by the key of the log.

    A curve is a list of steps and a list of values. `means` has a running mean for each level of smoothing, at the
    steps of the curve. A level at which it is the curve itself is left out. `ends` has the start and the end.
    """
    # Curves that are stacked must have the same steps, so their extremes are not kept.
    stacked = {key.name for panel in PANELS if panel.is_stacked for key in panel.keys}
    coarse = {key.name for panel in PANELS if panel.is_coarse for key in panel.keys}
    described: dict[str, dict[str, Any]] = {"curves": {}, "means": {}, "ends": {}}
    for key, curve in run.curves.items():
        steps = sorted(curve)
        values = [curve[step] for step in steps]
        kept = choose_points(values, keeps_extremes=key not in stacked)
        means = find_means(values, kept, COARSE if key in coarse else SMOOTHING)
        described["curves"][key] = [[steps[i] for i in kept], _round([values[i] for i in kept])]
        described["means"][key] = {level: _round(mean) for level, mean in means.items()}
        described["ends"][key] = _round([mean_of_end(values[::-1]), mean_of_end(values)])
    return described


def describe_token_axes(run: Run) -> dict[str, list[list[Any]]]:
    """Return steps and the tokens so far at these steps, for each key in `TOKENS` that the run has logged.

    A count stays the same until the next rollout, so only the last step of each count is kept.
    """
    axes: dict[str, list[list[Any]]] = {}
    for key in TOKENS:
        if key in run.curves:
            last_steps = {0.0: 0} | {count: step for step, count in sorted(run.curves[key].items())}
            counts = list(last_steps)
            kept = choose_points(counts)
            axes[key] = [[last_steps[counts[i]] for i in kept], [counts[i] for i in kept]]
    return axes


def choose_points(values: Sequence[float], points: int = POINTS, keeps_extremes: bool = True) -> list[int]:
    """Return the indices of the about `points` entries of a curve that are drawn, in order.

    A longer curve is cut into parts with equal numbers of entries. Each part keeps its lowest and highest entry, or
    only its first entry if `keeps_extremes` is false. The first and last entry of the curve are always kept.
    """
    count = len(values)
    if count <= points:
        return list(range(count))
    size = -(-count // (points // 2))
    kept = {0, count - 1}
    for start in range(0, count, size):
        part = range(start, min(start + size, count))
        if keeps_extremes:
            kept.add(min(part, key=values.__getitem__))
            kept.add(max(part, key=values.__getitem__))
        else:
            kept.add(start)
    return sorted(kept)


def find_means(
    values: Sequence[float], places: Sequence[int], shares: Mapping[str, float]
) -> dict[str, NDArray[np.float64]]:
    """Return the running means of `values` at the indices `places`, one for each level in `shares`.

    `shares` maps each level to the share of the values in a mean. Levels at which this is a single value are left out.
    """
    # `reduceat` sums between neighbouring indices, and no index may be behind the last value.
    table = np.append(values, 0.0)
    stops = np.asarray(places) + 1
    means = {}
    for level, share in shares.items():
        width = round(len(values) * share)
        if width > 1:
            starts = np.maximum(stops - width, 0)
            sums = np.add.reduceat(table, np.column_stack([starts, stops]).ravel())[::2]
            means[level] = sums / (stops - starts)
    return means


def _round(values: Sequence[float] | NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
