"""The runs as the page's data: curves thinned, seeds of one setting put together, what differs between runs.

Curves can be drawn over tokens in the place of optimizer steps, where all runs have counted them. Each run then has
two columns, steps and tokens so far; between its steps the page reads them on a straight line.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from steer_trl import runlog
from steer_trl.diagnostics.keys import PANELS, Key, Panel, names
from steer_trl.diagnostics.start import start_entropy
from steer_trl.report.evaluations import Evaluated, comparisons, evaluated, frontiers
from steer_trl.report.methods import sentences_about
from steer_trl.report.read import Run, shortened
from steer_trl.report.tokens import looks_of

POINTS = 400  # of a curve
RUNNING = 15 * 60  # seconds after its last entry that a run is taken to be in progress
# Settings in which the seeds of one experiment differ.
OF_ONE_SEED = {"seed", "data_seed", "output_dir", "run_name", "logging_dir", "resume_from_checkpoint", "hub_model_id"}
TOKENS = {
    names.GENERATED_TOKENS: "tokens generated so far, also for groups that dynamic sampling drops; without prompts",
    names.NUM_TOKENS: "tokens as TRL counts them: prompts and completions so far",
}
Axis = tuple[list[int], list[float]]


def page_data(runs: Sequence[Run]) -> dict[str, Any]:
    """Return all that the page shows, as JSON has it."""
    groups = groups_of(runs)
    below = [evaluated(run) for run in runs]
    keys = sorted({key for run in runs for key in run.curves})
    counted = next((key for key in TOKENS if all(_tokens(run, key) for run in runs)), None)
    axes = [axis for run in runs if counted and (axis := _tokens(run, counted))]
    data = {
        "runs": [_run(run, one, len(runs)) for run, one in zip(runs, below, strict=True)],
        "groups": [_group(members, runs) for members in groups],
        "tokens": TOKENS[counted] if counted else None,
        "axes": {
            "runs": [thinned(steps, [places]) for steps, places in axes],
            "groups": [_at_mean_pace([axes[i] for i in members]) for members in groups if axes],
        },
        "comparisons": comparisons(below, groups),
        "frontiers": frontiers(below, groups),
        "panels": [panel for one in PANELS if (panel := _as_drawn(one, runs, keys))["lines"]],
        "keys": keys,
        "names": {name: key for name, key in vars(names).items() if name.isupper()},
        "methods": sentences_about(sorted({name for run in runs for name in run.description.get("methods", [])})),
        "differences": differences(runs),
    }
    return runlog.as_json(data)


def _run(run: Run, below: Evaluated, runs: int) -> dict[str, Any]:
    looks = looks_of(run, runs)
    about = run.description
    return {
        "name": run.name,
        "methods": about.get("methods"),
        "versions": about.get("versions", {}),
        "started": about.get("started"),
        "resumed": about.get("resumed", []),
        "step": run.last_step,
        "max_steps": run.max_steps,
        "status": _status(run),
        "ended": max(run.times.values(), default=None),
        "ends": _ends(run),
        "curves": _curves(run),
        "intervals": below.intervals,
        "alarms": [
            {"step": runlog.step_of(alarm), **{name: str(alarm.get(name) or "") for name in ("title", "text")}}
            for alarm in run.alarms
        ],
        "looks": looks,
        "code": _code(about.get("code", {})),
        "notes": run.notes,
    }


def _code(code: Mapping[str, Any]) -> str:
    """The commit that a run was started with."""
    changed = ", with changes" if code.get("is_changed") is True else ""
    return f"commit {str(code['commit'])[:12]}{changed}" if "commit" in code else ""


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


def _status(run: Run) -> str:
    """As far as the log tells; one without times does not."""
    if run.is_finished or not run.times:
        return "finished" if run.is_finished else ""
    return "running" if time.time() - max(run.times.values()) < RUNNING else "stopped"


def _as_drawn(panel: Panel, runs: Sequence[Run], keys: Sequence[str]) -> dict[str, Any]:
    """A panel of the registry as JSON has it, its `lines` being those of the `keys` that it draws of the `runs`."""
    lines = [line for row in panel.keys if not row.is_target for line in _lines(row, keys)]
    curves = [run.curves[line["key"]] for run in runs for line in lines if line["key"] in run.curves]
    if panel.must_move and all(len(set(curve.values())) == 1 for curve in curves):
        lines = []
    texts = ("title", "unit", "section", "sees", "healthy", "within", "is_stacked", "has_start")
    return {
        **{name: getattr(panel, name) for name in texts},
        "lines": lines,
        "targets": [row.name for row in panel.keys if row.is_target],
        "instead": {row.instead_of: row.name for row in panel.keys if row.instead_of},
    }


def _lines(row: Key, keys: Sequence[str]) -> list[dict[str, str]]:
    matches = [key for key in keys if key == row.name or (row.family and re.fullmatch(row.name, key))]
    return [{"key": key, "label": row.label or key.removeprefix("eval_").replace("_", " ")} for key in matches]


# Curves.


def thinned(steps: list[int], columns: list[list[float]], points: int = POINTS) -> list[list[Any]]:
    """Return steps and columns with at most some `points` entries: lowest and highest of the first column stay."""
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


def _tokens(run: Run, key: str) -> Axis | None:
    """Steps and tokens so far. A count stands until the next rollout, so it is placed at its last step."""
    last = {count: step for step, count in sorted(run.curves.get(key, {}).items())}
    return ([0, *last.values()], [0.0, *last]) if last else None


def _at_mean_pace(axes: Sequence[Axis]) -> list[list[Any]]:
    """The axis of several seeds: the mean of their tokens per step, each while it lasts."""
    steps = sorted({step for axis in axes for step in axis[0]})
    places = np.array([np.interp(steps, *axis, right=np.nan) for axis in axes])
    paces = np.nanmean(np.diff(places, axis=1), axis=0)  # the seed that lasts longest has one everywhere
    return thinned(steps, [np.cumsum([places[:, 0].mean(), *paces]).tolist()])


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
    if len(own) == 1:
        return {"name": own[0].name, "runs": members}
    stem = re.sub(r"[\W_]*(seed|s)?[\W_]*\d*$", "", own[0].name)
    name = stem or " + ".join(own[0].description.get("methods") or ["GRPO"])
    keys = dict.fromkeys(key for run in own for key in run.curves)
    curves = {key: _together([run.curves.get(key, {}) for run in own]) for key in keys}
    return {"name": f"{name} ({len(own)} seeds)", "runs": members, "curves": curves}


def _together(curves: Sequence[Mapping[int, float]]) -> list[list[Any]]:
    """Steps, mean, lowest and highest of several seeds, each step over the seeds that have it."""
    at = {step: [curve[step] for curve in curves if step in curve] for step in {s for curve in curves for s in curve}}
    steps = sorted(at)
    return thinned(steps, [[join(at[step]) for step in steps] for join in (fmean, min, max)])


def differences(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the settings of all runs: those in which they differ, and those that all share."""
    known = [_settings(run) for run in runs]
    defaults = {name: value for run in runs for name, value in run.description.get("defaults", {}).items()}
    rows = {
        name: [_value(name, settings, defaults) for settings in known]
        for name in sorted({name for settings in known for name in settings})
    }
    return {
        "different": {name: values for name, values in rows.items() if len(set(values)) > 1},
        "same": {name: values[0] for name, values in rows.items() if len(set(values)) == 1},
    }


def _settings(run: Run) -> dict[str, Any]:
    own = {n: v for n, v in run.description.get("settings", {}).items() if n not in ("output_dir", "logging_dir")}
    methods = run.description.get("methods")
    return own if methods is None else own | {"advantage_shaping": " + ".join(methods) or "none"}


def _value(name: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """What a setting is in a run; `default` alone where nobody has kept the default."""
    if name not in settings and name not in defaults:
        return "default"
    value = settings.get(name, defaults.get(name))
    text = "not set" if value is None else shortened(value if isinstance(value, str) else json.dumps(value))
    return text if name in settings else f"{text} (default)"
