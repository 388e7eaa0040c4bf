"""Publishes a run as one file: its settings, the counts of every problem, and how its numbers changed in training.

`steer-trl compare` reads this file in the same way as the run's evaluation.
"""

import json
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.lab import Experiment
from experiments.lab.published import EVALUATIONS, counts_of
from experiments.lab.results import COLUMNS, Result, packed
from experiments.lab.runs import COMMITS
from steer_trl.evaluation.folders import Evaluation
from steer_trl.monitoring import run_files
from steer_trl.support.system import write_text_whole

OF_ROLLOUT = (
    *("rollout_entropy", "generated_tokens", "reward", "frac_reward_zero_std", "completions/mean_length"),
    *("hold_entropy/target", "hold_entropy/strength", "dynamic_sampling/tokens_per_trained_token", "stare/amplify"),
)
OF_STEP = ("entropy", "clip_ratio/low_mean", "clip_ratio/high_mean", "shaping/weight_mean", "shaping/relative_change")
"""The logged numbers that are averaged over the steps of a rollout."""
COURSE = COLUMNS | {"accuracy T=1, of 4": ("t1", "avg@4"), "pass@4 T=1": ("t1", "pass@4")}
"""The measures on the validation split during training. Runs at several temperatures have only the last two."""


def file_of(folder: Path, arm: str, start: int, seed: int | None = None) -> Path:
    """Return the path at which a run or a start model is published."""
    parts = [re.sub(r"[^a-z0-9.]+", "-", arm.lower()), f"start{start}", *([] if seed is None else [f"seed{seed}"])]
    return folder / f"{'-'.join(parts)}.json"


def counts_by_sampling(evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return the published part of evaluations: settings, the counts of every problem, and the mean of maj@k."""
    return {
        sampling: {
            "settings": _public(one.settings),
            "benchmarks": packed(counts_of(one.values)),
            "majority": {name: _majority(metrics) for name, metrics in one.values.items()},
        }
        for sampling, one in evaluations.items()
    }


def _majority(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {key: round(mean(each.values()), 5) for key, each in metrics.items() if key.startswith("maj@")}


def publish(
    path: Path,
    experiment: Experiment,
    name: str,
    arm: str,
    seed: int | None = None,
    settings: dict[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write the record of a finished run or of a start model. The entries of `more` are added at its end."""
    result = Result(experiment.folder(name))
    evaluations = counts_by_sampling(result.test)
    record = {"task": experiment.task.name, "arm": arm, "start": experiment.seed, "seed": seed}
    record |= {"settings": settings, EVALUATIONS: evaluations}
    if settings is not None:
        rollouts = _rollouts(result.log)
        columns = {key: [rollout.get(key) for rollout in rollouts] for key in dict.fromkeys(chain(*rollouts))}
        description = run_files.read_description(result.folder / run_files.LOGS)
        started = datetime.fromtimestamp(description["started"], UTC)
        record |= {
            "versions": description.get("versions"),
            "commits": (result.folder / COMMITS).read_text().split(),
            "started": started.isoformat(timespec="seconds"),
            "resumed": len(description["resumed"]),
            "device": _processor(),
            "steps": columns["step"][-1],
            "seconds": round(result.seconds),
            "generated_tokens": columns["generated_tokens"][-1],
            "validation": {column: course for column, of in COURSE.items() if (course := result.validation(*of))},
            "rollouts": columns,
        }
    write_record(path, record | dict(more or {}))


def _processor() -> str:
    """Return the model of this machine's processor as Linux reports it, or else the machine type."""
    path = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.+)", path.read_text()) if path.exists() else []
    return f"cpu: {models[0] if models else platform.machine()}"


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record to a file, which is never left half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_whole(path, json.dumps(record, separators=(",", ":")) + "\n")


def _public(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an evaluation, without those that concern this machine."""
    return {key: settings[key] for key in ("sampling", "benchmarks", "judge", "prompt_token_ids") if key in settings}


def _rollouts(log: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return an entry for each rollout, with the numbers that are logged once and the means over its steps."""
    parts: list[list[dict[str, Any]]] = []
    for entry in log:
        if entry.get("generated_tokens") is not None:
            parts.append([])
        if parts and "train_runtime" not in entry and not any(key.startswith("eval_") for key in entry):
            parts[-1].append(entry)
    rollouts = []
    for steps in parts:
        values = {key: steps[0][key] for key in OF_ROLLOUT if steps[0].get(key) is not None}
        for key in OF_STEP:
            if found := [entry[key] for entry in steps if entry.get(key) is not None]:
                values[key] = mean(found)
        rollouts.append({"step": steps[-1]["step"]} | {key: round(value, 5) for key, value in values.items()})
    return rollouts
