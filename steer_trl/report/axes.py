"""What curves are drawn over beside optimizer steps: tokens and hours of training, as far as a run's log has them.

    generated_tokens   what the policy has written so far, also for groups that dynamic sampling drops
    num_tokens         TRL's count, which has the prompts too: of a plain trainer, and of earlier runs
    hours              since the training began, without the pauses before it was resumed

An axis is two columns, steps and what they stand for; between its steps it is read on a straight line. A rollout that
is trained on in several steps has its tokens spread over them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from steer_trl.diagnostics.keys import names
from steer_trl.report.fields import is_number
from steer_trl.report.read import Run

TOKENS, HOURS = (names.GENERATED_TOKENS, names.NUM_TOKENS), "hours"
Axis = tuple[list[int], list[float]]


def axes_of(run: Run) -> dict[str, Axis]:
    """Return the axes that the log of `run` has, by name."""
    found = {key: _tokens(run.curves.get(key, {})) for key in TOKENS} | {HOURS: _hours(run)}
    return {name: axis for name, axis in found.items() if axis is not None}


def axes_of_seeds(seeds: Sequence[Mapping[str, Axis]]) -> dict[str, Axis]:
    """Return the axes that all seeds have: at the mean of their paces, while each lasts.

    A mean of the places themselves would fall where a seed ends that is ahead of the others.
    """
    return {
        name: _together([axes[name] for axes in seeds]) for name in seeds[0] if all(name in axes for axes in seeds)
    }


def _tokens(counts: Mapping[int, float]) -> Axis | None:
    """A count stands until the next rollout, so it is placed at its last step."""
    last: dict[float, int] = {}
    most = 0.0
    for step in sorted(counts):
        most = max(most, counts[step])
        last[most] = step
    if most == 0:
        return None
    steps = {0: 0.0} | {step: count for count, step in last.items()}
    return list(steps), list(steps.values())


def _hours(run: Run) -> Axis | None:
    """Of a log whose earlier entries have no time, such as those of a plain trainer, nobody knows when it began."""
    first = min((step for curve in run.curves.values() for step in curve), default=0)
    if first not in run.times:
        return None
    started = run.description.get("started")
    now = run.times[first] if started is None else min(started, run.times[first])
    resumes = [time for one in run.description.get("resumed", []) if is_number(time := one.get("time"))]
    found = {} if first == 0 or started is None else {0: 0.0}
    seconds = 0.0
    for step in sorted(run.times):
        since = max(time for time in [now, *resumes] if time <= max(now, run.times[step]))
        seconds += max(0.0, run.times[step] - since)
        now = max(now, run.times[step])
        found[step] = seconds / 3600
    return list(found), list(found.values())


def _together(axes: Sequence[Axis]) -> Axis:
    steps = sorted({step for axis in axes for step in axis[0]})
    places = np.array([np.interp(steps, *axis, right=np.nan) for axis in axes])
    paces = np.nanmean(np.diff(places, axis=1), axis=0)  # the seed that lasts longest has one everywhere
    return steps, [float(place) for place in np.cumsum([places[:, 0].mean(), *paces])]
