"""Turns runs into the data of the page: thinned curves, panels, what each run did, and the settings that differ.

Curves can be drawn over tokens instead of optimizer steps if all runs have counted their tokens. Each run then has two
columns, steps and tokens so far, between which the page interpolates.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from steer_trl import runlog
from steer_trl.diagnostics.keys import PANELS, Key, Panel, names
from steer_trl.report.entropy import describe_entropy
from steer_trl.report.evaluations import Evaluations, compare_runs, draw_frontiers, find_evaluations
from steer_trl.report.read import Run, shorten
from steer_trl.report.tokens import select_looks
from steer_trl.report.weights import describe_weights

POINTS = 400
"""The most points of a curve, approximately."""
RUNNING = 15 * 60
"""Seconds after its last entry during which a run is taken to be in progress."""
FOLDERS = ("output_dir", "logging_dir")
TOKENS = {
    names.GENERATED_TOKENS: "tokens generated so far, with the groups that dynamic sampling drops; without prompts",
    names.NUM_TOKENS: "tokens as TRL counts them: prompts and completions so far",
}


def page_data(runs: Sequence[Run]) -> dict[str, Any]:
    """Return everything that the page shows, as values that JSON can hold."""
    evaluations = [find_evaluations(run) for run in runs]
    keys = sorted({key for run in runs for key in run.curves})
    token_key = next((key for key in TOKENS if all(run.curves.get(key) for run in runs)), None)
    data = {
        "runs": [_describe_run(run, one, len(runs), token_key) for run, one in zip(runs, evaluations, strict=True)],
        "tokens": TOKENS[token_key] if token_key else None,
        "comparisons": compare_runs(evaluations),
        "frontiers": draw_frontiers(evaluations),
        "panels": [_describe_panel(panel, keys) for panel in PANELS],
        "keys": keys,
        "names": {name: key for name, key in vars(names).items() if name.isupper()},
        "differences": find_differences(runs),
    }
    return runlog.as_json(data)


def _describe_run(run: Run, evaluations: Evaluations, num_runs: int, token_key: str | None) -> dict[str, Any]:
    about = run.description
    phrases = describe_weights(about["methods"], run.settings) if "methods" in about else []
    return {
        "name": run.name,
        "weights": list(map(shorten, phrases)),
        "versions": about.get("versions", {}),
        "started": about.get("started"),
        "ended": max(run.times.values(), default=None),
        "resumed": [resumed["step"] for resumed in about.get("resumed", [])],
        "step": run.last_step,
        "budget": find_budget(run),
        "status": _find_status(run),
        "entropy": describe_entropy(run),
        "curves": _thin_curves(run),
        "tokens": _find_token_axis(run.curves[token_key]) if token_key else None,
        "intervals": evaluations.intervals,
        "alarms": [alarm | {"step": runlog.step_of(alarm)} for alarm in run.alarms],
        "looks": select_looks(run, num_runs),
        "code": about.get("code", {}),
        "notes": run.notes,
    }


def _find_status(run: Run) -> str:
    """Return the status that the log implies, or nothing if its entries have no times."""
    if run.last_step in run.curves.get("train_runtime", {}):
        return "finished"
    if not run.times:
        return ""
    return "running" if time.time() - max(run.times.values()) < RUNNING else "stopped"


def find_budget(run: Run) -> dict[str, Any] | None:
    """Return the unit, the used part and the size of the budget that ends the run: the one it is nearest to."""
    settings = run.settings
    tokens = max(run.curves.get(names.GENERATED_TOKENS, {}).values(), default=0.0)
    budgets: list[dict[str, Any]] = [{"unit": "tokens", "used": tokens, "size": settings.get("max_generated_tokens")}]
    if settings.get("max_steps", 1) > 0:
        budgets.append({"unit": "steps", "used": run.last_step, "size": run.max_steps})
    else:
        budgets.append({"unit": "epochs", "used": run.epoch, "size": settings.get("num_train_epochs")})
    known = [budget for budget in budgets if budget["size"]]
    return max(known, key=lambda budget: budget["used"] / budget["size"], default=None)


def _describe_panel(panel: Panel, keys: Sequence[str]) -> dict[str, Any]:
    """Return a panel of the registry, with a line for each of the `keys` that it draws."""
    lines = [line for row in panel.keys if not row.is_target for line in _find_lines(row, keys)]
    targets = [row.name for row in panel.keys if row.is_target]
    return vars(panel) | {"keys": lines, "targets": targets}


def _find_lines(row: Key, keys: Sequence[str]) -> list[dict[str, str]]:
    matches = [key for key in keys if key == row.name or (row.family and re.fullmatch(row.name, key))]
    return [{"key": key, "label": row.label or key.removeprefix("eval_").replace("_", " ")} for key in matches]


# Curves.


def _thin_curves(run: Run) -> dict[str, list[list[Any]]]:
    """Return the thinned curves. Those that are stacked on each other are thinned alike, whatever their extremes."""
    stacked = {key.name for panel in PANELS if panel.is_stacked for key in panel.keys}
    return {key: thin_curve(values, keeps_extremes=key not in stacked) for key, values in run.curves.items()}


def thin_curve(curve: Mapping[int, float], points: int = POINTS, keeps_extremes: bool = True) -> list[list[Any]]:
    """Return steps and values in order, with about `points` entries at most.

    The first and the last stay, and of each part between them the lowest and the highest, or else its first entry.
    """
    steps = sorted(curve)
    if len(steps) > points:
        size = -(-len(steps) // (points // 2))
        kept = {steps[0], steps[-1]}
        for start in range(0, len(steps), size):
            part = steps[start : start + size]
            kept |= (
                {min(part, key=curve.__getitem__), max(part, key=curve.__getitem__)} if keeps_extremes else {part[0]}
            )
        steps = sorted(kept)
    return [steps, [float(f"{curve[step]:.6g}") for step in steps]]


def _find_token_axis(counts: Mapping[int, float]) -> list[list[Any]]:
    """Return steps and tokens so far. A count stays the same until the next rollout: its last step is used."""
    last_steps = {count: step for step, count in sorted(counts.items())}
    return thin_curve({0: 0.0} | {step: count for count, step in last_steps.items()})


# Settings.


def find_differences(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the settings in which the runs differ, a value for each run, and those that all share."""
    known = [_collect_settings(run) for run in runs]
    defaults = {name: value for run in runs for name, value in run.description.get("defaults", {}).items()}
    different = {}
    same = {}
    for name in sorted({name for settings in known for name in settings}):
        values = [_describe_value(name, settings, defaults) for settings in known]
        if len(set(values)) > 1:
            different[name] = values
        else:
            same[name] = values[0]
    return {"different": different, "same": same}


def _collect_settings(run: Run) -> dict[str, Any]:
    settings = {name: value for name, value in run.description.get("settings", {}).items() if name not in FOLDERS}
    methods = run.description.get("methods")
    if methods is not None:
        settings["advantage_shaping"] = " + ".join(methods) or "none"
    return settings


def _describe_value(name: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return the value of a setting as text; `default` alone if the value of the default is unknown."""
    if name not in settings and name not in defaults:
        return "default"
    value = settings.get(name, defaults.get(name))
    text = "not set" if value is None else shorten(value if isinstance(value, str) else json.dumps(value))
    return text if name in settings else f"{text} (default)"
