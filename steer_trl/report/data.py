"""The runs as the page's data: curves thinned, seeds of one setting put together, what differs between runs."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from steer_trl import runlog
from steer_trl.diagnostics.keys import PANELS, names
from steer_trl.diagnostics.start import start_entropy
from steer_trl.report.axes import Axis, axes_of, axes_of_seeds
from steer_trl.report.evaluations import Evaluated, comparisons, evaluated
from steer_trl.report.fields import code_in_words, shortened
from steer_trl.report.frontier import frontiers
from steer_trl.report.methods import sentences_about
from steer_trl.report.panels import as_drawn
from steer_trl.report.read import Run
from steer_trl.report.tokens import BUDGET, looks_of

POINTS = 400  # of a curve
MOST_NOTES = 10  # of a run
ALWAYS_FINITE = (
    names.LOSS,
    names.GRAD_NORM,
    names.ENTROPY,
    names.ROLLOUT_ENTROPY,
    names.REWARD,
)  # others can have nothing to measure
RUNNING = 15 * 60  # seconds after its last entry that a run is taken to be in progress
# Settings in which the seeds of one experiment differ.
OF_ONE_SEED = {"seed", "data_seed", "output_dir", "run_name", "logging_dir", "resume_from_checkpoint", "hub_model_id"}


def page_data(runs: Sequence[Run]) -> dict[str, Any]:
    """Return all that the page shows, as JSON has it."""
    budget = BUDGET // len(runs)
    groups = groups_of(runs)
    below = [evaluated(run) for run in runs]
    compared = comparisons(runs, below, groups)  # before the runs: they note in them what they cannot read
    swept = frontiers(runs, below, groups)
    keys = sorted({key for run in runs for key in run.curves})
    return {
        "written": round(time.time()),
        "runs": [_run(run, one, budget) for run, one in zip(runs, below, strict=True)],
        "groups": [_group(members, runs) for members in groups],
        "comparisons": compared,
        "frontiers": swept,
        "panels": [panel for one in PANELS if (panel := as_drawn(one, runs, keys))["lines"]],
        "keys": keys,
        "names": {name: key for name, key in vars(names).items() if name.isupper()},
        "methods": sentences_about(sorted({name for run in runs for name in run.description.get("methods", [])})),
        "differences": differences(runs),
    }


def _run(run: Run, below: Evaluated, budget: int) -> dict[str, Any]:
    looks = looks_of(run, budget)
    hidden = 1 in run.curves.get(names.HIDDEN, {}).values()  # then a step had no token to measure
    finite = [key for key in ALWAYS_FINITE if not (hidden and key in names.ENTROPIES)]
    spoilt = [f"{key} ({run.not_finite[key]}x)" for key in finite if key in run.not_finite]
    notes = run.notes + ([f"No finite number in some entries: {', '.join(spoilt)}."] if spoilt else [])
    ended = max(run.times.values(), default=None)
    return {
        "name": run.name,
        "folder": str(run.folder),
        "methods": run.description.get("methods"),
        "model": run.description.get("model"),
        "versions": run.description.get("versions", {}),
        "started": run.description.get("started"),
        "resumed": [runlog.step_of(one) for one in run.description.get("resumed", [])],
        "step": run.last_step,
        "max_steps": run.max_steps,
        "status": _status(run, ended),
        "ended": ended,
        "ends": _ends(run),
        "curves": _curves(run),
        "axes": _thin(axes_of(run)),
        "intervals": below.intervals,
        "alarms": [_alarm(alarm) for alarm in run.alarms],
        "looks": looks,
        "code": code_in_words(run.description.get("code")),
        "notes": notes[:MOST_NOTES] + ([f"And {len(notes) - MOST_NOTES} more."] if len(notes) > MOST_NOTES else []),
    }


def _ends(run: Run) -> dict[str, list[float]]:
    """Where each curve begins and ends; an entropy where the run began, for it falls too fast for a mean."""
    ends = {key: ends_of(values) for key, values in run.curves.items()}
    read = {key: run.curves[key] for key in (names.START_ENTROPY, *names.ENTROPIES) if key in run.curves}
    steps = sorted({step for values in read.values() for step in values})
    start = start_entropy({key: values.get(step) for key, values in read.items()} for step in steps)
    for key in ends.keys() & names.ENTROPIES:
        ends[key][0] = float(f"{start:.6g}")
    return ends


def _curves(run: Run) -> dict[str, list[list[Any]]]:
    """The thinned curves; those that are stacked on each other have the same steps."""
    curves = {key: thinned(list(values), [list(values.values())]) for key, values in run.curves.items()}
    for panel in PANELS:
        if panel.is_stacked and (keys := [key.name for key in panel.keys if key.name in run.curves]):
            steps = sorted({step for key in keys for step in run.curves[key]})
            together, *columns = thinned(steps, [[run.curves[key].get(step, 0.0) for step in steps] for key in keys])
            curves |= {key: [together, column] for key, column in zip(keys, columns, strict=True)}
    return curves


def _status(run: Run, ended: float | None) -> str:
    """As far as the log tells; one without times does not."""
    if run.is_finished:
        return "finished"
    return "" if ended is None else "running" if time.time() - ended < RUNNING else "stopped"


def _alarm(alarm: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: str(alarm.get(name) or "")[:2000] for name in ("alarm", "title", "text", "level")}
    return texts | {"step": runlog.step_of(alarm)}


# Curves.


def thinned(steps: list[int], columns: list[list[float]], points: int = POINTS) -> list[list[Any]]:
    """Return steps and columns with at most some `points` entries: lowest and highest of each part stay.

    `columns` are values at the `steps`; the first decides.
    """
    order = sorted(range(len(steps)), key=steps.__getitem__)
    if len(order) > points:
        size = -(-len(order) // (points // 2))
        parts = [order[i : i + size] for i in range(0, len(order), size)]
        ends = [sorted({min(p, key=columns[0].__getitem__), max(p, key=columns[0].__getitem__)}) for p in parts]
        order = sorted({order[0], order[-1], *(i for pair in ends for i in pair)}, key=steps.__getitem__)
    return [[steps[i] for i in order], *([float(f"{column[i]:.6g}") for i in order] for column in columns)]


def ends_of(curve: Mapping[int, float]) -> list[float]:
    """Return where a curve begins and ends: means of up to ten values, at most a tenth of them."""
    values = [curve[step] for step in sorted(curve)]
    count = max(1, min(10, len(values) // 10))
    return [float(f"{fmean(part):.6g}") for part in (values[:count], values[-count:])]


# Runs beside each other.


def groups_of(runs: Sequence[Run]) -> list[list[int]]:
    """Return the places of runs that differ in their seed only; those that do not say their settings stand alone."""
    found: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        found.setdefault(_identity(run) or f"run {place}", []).append(place)
    return list(found.values())


def _identity(run: Run) -> str | None:
    settings = run.description.get("settings")
    if settings is None:
        return None
    kept = {name: value for name, value in settings.items() if name not in OF_ONE_SEED}
    return json.dumps([run.description.get("methods"), run.description.get("model"), kept], sort_keys=True)


def _group(members: list[int], runs: Sequence[Run]) -> dict[str, Any]:
    own = [runs[place] for place in members]
    name = own[0].name
    if len(own) > 1:
        stem = re.sub(r"[\W_]*(seed|s)?[\W_]*\d*$", "", name)
        name = stem or " + ".join(own[0].description.get("methods") or ["GRPO"])
    keys = dict.fromkeys(key for run in own for key in run.curves)
    curves = {key: _together([run.curves.get(key, {}) for run in own]) for key in keys} if len(own) > 1 else {}
    axes = axes_of_seeds([axes_of(run) for run in own]) if len(own) > 1 else {}
    return {"name": name, "runs": members, "curves": curves, "axes": _thin(axes)}


def _thin(axes: Mapping[str, Axis]) -> dict[str, list[list[Any]]]:
    return {name: thinned(steps, [places]) for name, (steps, places) in axes.items()}


def _together(curves: Sequence[Mapping[int, float]]) -> list[list[Any]]:
    """Steps, mean, lowest and highest of several seeds, each step over the seeds that have it."""
    at = {step: [curve[step] for curve in curves if step in curve] for step in {s for curve in curves for s in curve}}
    steps = sorted(at)
    return thinned(steps, [[join(at[step]) for step in steps] for join in (fmean, min, max)])


def differences(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the settings of all runs: those in which they differ, and those that all share."""
    known = [_settings(run) for run in runs]
    names = sorted({name for settings in known for name in settings})
    defaults = [run.description.get("defaults", {}) for run in runs]
    of_others = {name: value for some in defaults for name, value in some.items()}
    usual = [of_others | own for own in defaults]
    rows = {name: [_value(name, own, other) for own, other in zip(known, usual, strict=True)] for name in names}
    return {
        "different": {name: values for name, values in rows.items() if len(set(values)) > 1},
        "same": {name: values[0] for name, values in rows.items() if len(set(values)) == 1},
    }


def _settings(run: Run) -> dict[str, Any]:
    own = dict(run.description.get("settings", {}))
    methods = run.description.get("methods")
    if methods is not None:
        own["advantage_shaping"] = " + ".join(methods) or "none"
    return {str(name)[:80]: value for name, value in own.items() if name not in ("output_dir", "logging_dir")}


def _value(name: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """What a setting is in a run; `default` alone where nobody has kept the default."""
    if name not in settings and name not in defaults:
        return "default"
    value = settings.get(name, defaults.get(name))
    text = "not set" if value is None else _short(value)
    return text if name in settings else f"{text} (default)"


def _short(value: Any) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value))
