"""Collects the data that the page shows about runs, such as thinned curves, panels and settings."""

import re
import time
from collections.abc import Sequence
from typing import Any

from steer_trl.monitoring import key_names, run_files
from steer_trl.monitoring.keys import PANELS, Key, Panel
from steer_trl.report.entropy import describe_entropy
from steer_trl.report.evaluations import RunEvaluations, compare_runs, find_evaluations
from steer_trl.report.frontiers import draw_frontiers
from steer_trl.report.read import Run, is_finite_number, shorten
from steer_trl.report.thinning import describe_curves, describe_token_axes
from steer_trl.report.tokens import select_token_steps
from steer_trl.report.weights import describe_weights

RUNNING = 15 * 60
"""A run counts as running until its last log entry is this many seconds old."""


def page_data(runs: Sequence[Run]) -> dict[str, Any]:
    """Return everything that the page shows, as values that JSON can hold."""
    evaluations = [find_evaluations(run) for run in runs]
    keys = sorted({key for run in runs for key in run.curves})
    data = {
        "runs": [
            _describe_run(run, run_evaluations, len(runs))
            for run, run_evaluations in zip(runs, evaluations, strict=True)
        ],
        "comparisons": compare_runs(evaluations),
        "frontiers": draw_frontiers(evaluations),
        "panels": [_describe_panel(panel, keys) for panel in PANELS],
        "keys": keys,
        "names": {name: key for name, key in vars(key_names).items() if name.isupper()},
    }
    return run_files.as_json(data)


def _describe_run(run: Run, evaluations: RunEvaluations, num_runs: int) -> dict[str, Any]:
    about = run.description
    phrases = describe_weights(about["methods"], run.settings) if "methods" in about else []
    return {
        "name": run.name,
        "weights": list(map(shorten, phrases)),
        "methods": about.get("methods"),
        "settings": about.get("settings", {}),
        "defaults": about.get("defaults", {}),
        "versions": about.get("versions", {}),
        "started": about.get("started"),
        "ended": max(run.times.values(), default=None),
        "resumed": [resumed["step"] for resumed in about.get("resumed", [])],
        "step": run.last_step,
        "budget": find_budget(run),
        "status": _find_status(run),
        "entropy": describe_entropy(run),
        "token_axes": describe_token_axes(run),
        "intervals": evaluations.intervals,
        "alarms": [alarm | {"step": run_files.step_of(alarm)} for alarm in run.alarms],
        "token_steps": select_token_steps(run, num_runs),
        "code": about.get("code", {}),
        "notes": run.notes,
    } | describe_curves(run)


def _find_status(run: Run) -> str:
    """Return `"finished"`, `"running"` or `"stopped"`, or an empty string if the log has no times."""
    if run.last_step in run.curves.get("train_runtime", {}):
        return "finished"
    if not run.times:
        return ""
    return "running" if time.time() - max(run.times.values()) < RUNNING else "stopped"


def find_budget(run: Run) -> dict[str, Any] | None:
    """Return the run's most used budget of tokens, steps or epochs, or `None` if no budget is known.

    It is the budget with the largest `used / size`. Both are in the budget's `unit`.
    """
    settings = run.settings
    tokens = max(run.curves.get(key_names.GENERATED_TOKENS, {}).values(), default=0.0)
    budgets: list[dict[str, Any]] = [{"unit": "tokens", "used": tokens, "size": settings.get("max_generated_tokens")}]
    max_steps = settings.get("max_steps", 1)
    if not is_finite_number(max_steps) or max_steps > 0:
        budgets.append({"unit": "steps", "used": run.last_step, "size": run.max_steps})
    else:
        budgets.append({"unit": "epochs", "used": run.epoch, "size": settings.get("num_train_epochs")})
    limited = [budget for budget in budgets if is_finite_number(budget["size"]) and budget["size"] > 0]
    return max(limited, key=lambda budget: budget["used"] / budget["size"], default=None)


def _describe_panel(panel: Panel, keys: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a panel, with an entry for each key in `keys` that the panel draws."""
    lines = [line for row in panel.keys if not row.is_target for line in _find_lines(row, keys)]
    targets = [row.name for row in panel.keys if row.is_target]
    return vars(panel) | {"keys": lines, "targets": targets}


def _find_lines(row: Key, keys: Sequence[str]) -> list[dict[str, str]]:
    lines = []
    for key in keys:
        if key == row.name or (row.family and re.fullmatch(row.name, key)):
            label = row.label or key.removeprefix("eval_").replace("_", " ")
            lines.append({"key": key, "label": label})
    return lines
