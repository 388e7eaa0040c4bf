"""Reads the evaluations in the folders of runs, compares the runs, and collects temperature sweeps.

Evaluations made during training are in `benchmarks/step-N`. Evaluations made with `steer-trl eval` are in any other
folder directly inside the run's folder. An evaluation in `step-N` counts only if the run's log has its metrics at step
N, because the folder may still hold evaluations of an earlier run. Differences and intervals are the same as in
`steer-trl compare`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from steer_trl.evaluation.comparison import Difference
from steer_trl.evaluation.folders import Evaluation, compare_samplings, read_evaluations
from steer_trl.evaluation.records import COMPLETIONS, SUMMARY
from steer_trl.evaluation.summary import flatten
from steer_trl.evaluation.sweeps import group_sweeps
from steer_trl.monitoring import run_files
from steer_trl.report.read import Run, is_finite_number, shorten
from steer_trl.support.exceptions import InvalidValueError

IN_TRAINING = "benchmarks"
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
    inside = _list_folders(run.folder)
    folders = {path.name: path for path in inside if not path.name.startswith(run_files.CHECKPOINT)}
    in_training = folders.pop(IN_TRAINING, run.folder / IN_TRAINING)
    for step, path in sorted(_find_steps(in_training)):
        for key, mean, half_width in _read_summaries(path):
            if step in run.curves.get(key, {}):
                evaluations.step = step
                folders[IN_TRAINING] = path
                evaluations.intervals.setdefault(key, []).append((step, mean, half_width))
    for name, path in folders.items():
        if any((place / COMPLETIONS).exists() for place in [path, *_list_folders(path)]):
            try:
                evaluations.by_folder[name] = read_evaluations(path)
            except (InvalidValueError, OSError) as error:
                run.notes.append(_one_line(error))
    return evaluations


def _list_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _find_steps(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in _list_folders(folder):
        if match := re.fullmatch(r"step-(\d{1,15})", path.name):
            yield int(match[1]), path


def _read_summaries(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield the log key, mean and half width of each metric in a step's folder.

    Unreadable files are skipped.
    """
    for path in [folder, *_list_folders(folder)]:
        try:
            summary = run_files.loads((path / SUMMARY).read_bytes()) or {}
            pairs = flatten(summary, "" if path == folder else path.name)
            for key, (mean, half) in pairs.items():
                if is_finite_number(mean) and (half is None or is_finite_number(half)):
                    yield f"eval_{key}", mean, half or 0.0
        except (OSError, LookupError, TypeError, ValueError, AttributeError):
            continue


def _one_line(error: Exception) -> str:
    return shorten(" ".join(str(error).split()), 600)


# Comparisons of runs.


def compare_runs(evaluations: Sequence[RunEvaluations]) -> list[dict[str, Any]]:
    """Compare the runs whose evaluations are in folders of the same name.

    For each name, the first run with such a folder is compared with each of the others.
    """
    comparisons = []
    for name in _list_names(evaluations):
        first_run, *later_runs = [i for i, run in enumerate(evaluations) if name in run.by_folder]
        for later_run in later_runs:
            steps = [evaluations[i].step for i in (first_run, later_run)] if name == IN_TRAINING else []
            pair = _compare_pair(evaluations[first_run].by_folder[name], evaluations[later_run].by_folder[name])
            comparisons.append({"name": name, "a": first_run, "b": later_run, "steps": steps} | pair)
    return comparisons


def _list_names(evaluations: Sequence[RunEvaluations]) -> list[str]:
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
        return {"refused": _one_line(error)}
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


# Sweeps over temperatures.


def draw_frontiers(evaluations: Sequence[RunEvaluations]) -> list[dict[str, Any]]:
    """Return the data of a picture for each folder name and benchmark, with a curve for each run.

    The curve has a point for each temperature. Runs that were sampled at one temperature only are skipped.
    """
    pictures: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in _list_names(evaluations):
        for i, run_evaluations in enumerate(evaluations):
            for benchmark, points in _read_sweep(run_evaluations.by_folder.get(name, {})).items():
                pictures.setdefault((name, benchmark), []).append({"run": i, "points": points})
    return [{"name": name, "benchmark": benchmark, "curves": curves} for (name, benchmark), curves in pictures.items()]


def _read_sweep(samplings: Samplings) -> dict[str, list[dict[str, Any]]]:
    """Return the points of each benchmark.

    A point has a temperature and the shares of problems solved with it. The points come from the largest set of
    samplings that differ only in temperature and seed.
    """
    points: dict[str, list[dict[str, Any]]] = {}
    try:
        sweep = max(group_sweeps(samplings.values()).values(), key=len, default={})
        for temperature, evaluation in sweep.items():
            for benchmark, metrics in evaluation.values.items():
                solved = _find_solved(metrics)
                points.setdefault(benchmark, []).append({"temperature": temperature, "solved": solved})
    except InvalidValueError:
        return {}
    return {benchmark: points_ for benchmark, points_ in points.items() if len(points_) > 1}


def _find_solved(metrics: Mapping[str, Mapping[str, float]]) -> dict[int, float]:
    """Return a mapping from k to the share of problems solved in k tries.

    For k = 1, this is the share of correct samples.
    """
    solved = {}
    for metric, by_problem in metrics.items():
        kind, _, tries = metric.partition("@")
        if kind in ("avg", "pass"):
            solved[int(tries) if kind == "pass" else 1] = fmean(by_problem.values())
    return solved
