"""Reads the evaluations of runs, and compares the runs.

Differences and intervals are those of `steer-trl compare`, and what that command refuses is not compared here either.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steer_trl.evaluation.comparison import Difference
from steer_trl.evaluation.folders import Evaluation, compare_samplings, find_samplings, read_evaluations
from steer_trl.report.evaluation_folders import IN_TRAINING, find_saved_evaluations, find_step_evaluations
from steer_trl.report.read import Run, is_finite_number, shorten
from steer_trl.support.exceptions import InvalidValueError

MEASURE = re.compile(r"(pass|avg|distinct|maj)@(\d+)")
ORDER = ("pass", "avg", "distinct", "maj")

Samplings = Mapping[str, Evaluation]


@dataclass
class RunEvaluations:
    """The evaluations in a run's folder.

    Attributes:
        by_folder (`dict[str, dict]`): the last evaluation made during training and all evaluations made with
            `steer-trl eval`, nested by the name of the folder and the name of the sampling.
        step (`int`, *optional*): the optimizer step of the last evaluation made during training.
        intervals (`dict[str, list]`): maps a key of the log to its 95 % intervals. Each has a step, a mean and a half
            width.
    """

    by_folder: dict[str, Samplings] = field(default_factory=dict)
    step: int | None = None
    intervals: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)


def find_evaluations(run: Run) -> RunEvaluations:
    """Find the evaluations of a run. For each evaluation that cannot be read, a note is added to the run."""
    evaluations = RunEvaluations()
    folders = {path.name: path for path in find_saved_evaluations(run.folder)}
    for of_step in find_step_evaluations(run):
        evaluations.step = of_step.step
        folders[IN_TRAINING] = of_step.folder
        for key, (mean, half_width) in of_step.intervals.items():
            evaluations.intervals.setdefault(key, []).append((of_step.step, mean, half_width))
    for name, path in folders.items():
        if find_samplings(path):
            try:
                evaluations.by_folder[name] = read_evaluations(path)
            except (InvalidValueError, OSError) as error:
                run.notes.append(to_one_line(error))
    return evaluations


def to_one_line(reason: object) -> str:
    """Return a reason, such as an error, as a single line of limited length."""
    return shorten(" ".join(str(reason).split()), 600)


# Comparisons of runs.


def compare_runs(evaluations: Sequence[RunEvaluations]) -> list[dict[str, Any]]:
    """Compare the runs whose evaluations are in folders of the same name.

    For each name, the first run with such a folder is compared with each of the others.
    """
    comparisons = []
    for name in list_names(evaluations):
        first_run, *later_runs = [i for i, run in enumerate(evaluations) if name in run.by_folder]
        for later_run in later_runs:
            steps = [evaluations[i].step for i in (first_run, later_run)] if name == IN_TRAINING else []
            pair = _compare_pair(evaluations[first_run].by_folder[name], evaluations[later_run].by_folder[name])
            comparisons.append({"name": name, "a": first_run, "b": later_run, "steps": steps} | pair)
    return comparisons


def list_names(evaluations: Sequence[RunEvaluations]) -> list[str]:
    """Return the names of all folders with evaluations.

    The folder with the evaluations made during training comes last.
    """
    return sorted(
        {name for run_evaluations in evaluations for name in run_evaluations.by_folder},
        key=lambda name: (name == IN_TRAINING, name),
    )


def _compare_pair(a: Samplings, b: Samplings) -> dict[str, Any]:
    """Return the rows that compare two runs, or the reason why they cannot be compared, under `refused`.

    `main` holds the rows of the first benchmark for the sampling whose temperature is closest to 1, without maj@k.
    `others` holds all other rows.
    """
    try:
        compared = compare_samplings([a], [b])
    except InvalidValueError as error:
        return {"refused": to_one_line(error)}
    rows = []
    for sampling in sorted(compared, key=lambda name: _distance_from_training(a[name])):
        for benchmark, metrics in compared[sampling].items():
            label = f"{benchmark} {sampling}".strip()
            for metric, difference in _select_metrics(metrics):
                rows.append({"label": label, "metric": metric} | difference.to_entry())
    main = [row for row in rows if row["label"] == rows[0]["label"] and not row["metric"].startswith("maj")]
    return {"main": main, "others": [row for row in rows if row not in main]}


def _distance_from_training(evaluation: Evaluation) -> float:
    """Return the distance of a sampling's temperature from 1, at which models are usually trained."""
    temperature = evaluation.settings["sampling"].get("temperature")
    return abs(temperature - 1) if is_finite_number(temperature) else 1.0


def _select_metrics(metrics: Mapping[str, Difference]) -> list[tuple[str, Difference]]:
    """Return pass@k, avg@k, distinct@k and maj@k, each for its largest k. Skip any that was not measured."""
    largest = {match[1]: metric for metric in metrics if (match := MEASURE.fullmatch(metric))}
    return [(largest[kind], metrics[largest[kind]]) for kind in ORDER if kind in largest]
