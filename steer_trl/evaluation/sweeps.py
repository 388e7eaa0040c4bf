"""Collects evaluations of runs at several temperatures into the two sides of a comparison.

The evaluations of a run may lie in several folders. A sweep is a set of a run's samplings that
differ only in the temperature and the seed. If a run has several sweeps, the largest sweep of side
A's first run decides which sampling settings are compared.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steer_trl.evaluation.folders import Evaluation, comparison_complaints, read_evaluations
from steer_trl.evaluation.frontier import Sides, Sweep
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import is_within, refuse

OF_THE_MODEL = ("model_name_or_path", "model_revision", "model_files", "step")
VARIES = ("temperature", "seed")
"""Settings of a sampling that may differ between the points of a sweep."""
ByTemperature = Mapping[float, Evaluation]
"""Maps each temperature to the evaluation of a run at this temperature, the lowest first."""
OtherSettings = tuple[tuple[str, str], ...]
"""Names and values of a sampling's settings, except for the settings in `VARIES`."""


def read_sides(a: Sequence[str], b: Sequence[str], paired: bool = False) -> dict[str, Sides]:
    """Read the evaluations of both sides of a comparison.

    Args:
        a, b: the folders of side A and side B, written by `steer-trl eval`. A side may have several
            runs, and a run may have several folders.
        paired: whether the n-th runs of both sides share an initial model or a seed.

    Returns:
        a mapping from each benchmark to its two sides.

    Raises:
        `ValueError`: the two sides cannot be compared.
    """
    runs_a, runs_b = _read_runs(a), _read_runs(b)
    first_run = runs_a[0]
    other_settings = max(first_run, key=lambda other_settings: len(first_run[other_settings]), default=())
    ours = [run.get(other_settings, {}) for run in runs_a]
    theirs = [run.get(other_settings, {}) for run in runs_b]
    refuse(complain_about_sweeps([*ours, *theirs]), "frontier")
    of_a = {evaluation.folder.resolve() for run in ours for evaluation in run.values()}
    twice = [evaluation.folder for run in theirs for evaluation in run.values() if evaluation.folder.resolve() in of_a]
    refuse([f"{folder} is on both sides. Give two models." for folder in twice[:1]], "frontier")
    swept_a, swept_b = count_sweeps(ours), count_sweeps(theirs)
    return {name: Sides(swept_a[name], swept_b[name], paired) for name in swept_a}


def complain_about_sweeps(runs: Sequence[ByTemperature]) -> list[str]:
    """Return complaints if the sweeps of several runs, or the evaluations of one sweep, cannot be compared.

    They must be of the same temperatures, and differ in no setting that matters apart from temperature and seed.
    """
    complaints = _complain_about_temperatures(runs)
    if complaints:
        return complaints
    first, *others = (evaluation for run in runs for evaluation in run.values())
    return comparison_complaints(first, others, [f"sampling.{name}" for name in VARIES])


def group_sweeps(evaluations: Iterable[Evaluation]) -> dict[OtherSettings, ByTemperature]:
    """Group the evaluations of a run by their sampling settings other than temperature and seed.

    Greedy evaluations are skipped.

    Raises:
        `ValueError`: two evaluations of a group have the same temperature.
    """
    groups: dict[OtherSettings, dict[float, Evaluation]] = {}
    for evaluation in evaluations:
        settings = evaluation.settings.get("sampling")
        sampling: dict[str, Any] = settings if isinstance(settings, dict) else {}
        temperature: Any = sampling.get("temperature")
        if not is_within(temperature, "(0, inf)"):
            continue
        other_settings = tuple(sorted((key, repr(value)) for key, value in sampling.items() if key not in VARIES))
        before = groups.setdefault(other_settings, {}).setdefault(temperature, evaluation)
        if before is not evaluation:
            raise InvalidValueError(
                f"{evaluation.folder} and {before.folder} are of one run and both at temperature {temperature}. Give "
                "one."
            )
    return {other_settings: dict(sorted(run.items())) for other_settings, run in groups.items()}


def count_sweeps(runs: Sequence[ByTemperature]) -> dict[str, Sweep]:
    """Count the correct samples of several runs, and return a mapping from benchmarks to sweeps.

    The runs must have the same problems and temperatures.
    """
    temperatures = tuple(runs[0])
    sweeps = {}
    for name, metrics in runs[0][temperatures[0]].values.items():
        average = next(iter(metrics))
        samples = int(average.removeprefix("avg@"))
        correct = [
            [_count_correct(run[temperature].values[name][average], samples) for run in runs]
            for temperature in temperatures
        ]
        sweeps[name] = Sweep(temperatures, np.array(correct), samples)
    return sweeps


def _count_correct(shares: Mapping[str, float], samples: int) -> list[int]:
    """Return the number of correct samples of each problem, in the order of the problems' ids."""
    return [round(share * samples) for _, share in sorted(shares.items())]


def _read_runs(paths: Sequence[str]) -> list[dict[OtherSettings, ByTemperature]]:
    """Read the evaluations of one side and group them by run, in the order of `paths`.

    Evaluations of the same model belong to the same run, even if they lie in several folders.
    """
    by_model: dict[str, list[Evaluation]] = {}
    for path in paths:
        for evaluation in read_evaluations(path).values():
            names = [evaluation.settings.get(name) for name in OF_THE_MODEL]
            # An evaluation during training names the model that the run began with, and runs may share it.
            run = None if evaluation.settings.get("model_files") else _find_run(path)
            model = repr([*names, run])
            by_model.setdefault(model, []).append(evaluation)
    return [group_sweeps(evaluations) for evaluations in by_model.values()]


def _find_run(path: str) -> str:
    """Return the folder of the run whose folder `benchmarks` has an evaluation; empty if it is in none."""
    run, folder, _ = str(Path(path).absolute()).rpartition(f"{os.sep}benchmarks{os.sep}")
    return run if folder else ""


def _complain_about_temperatures(runs: Sequence[ByTemperature]) -> list[str]:
    lists = [list(run) for run in runs]
    unequal = [temperatures for temperatures in lists if temperatures != lists[0] or len(temperatures) < 2]
    return [
        f"every run must have been sampled at the same temperatures, 2 or more, got {lists[0]} and {temperatures}. "
        "steer-trl eval --temperatures .25 .5 .75 1 1.25 draws them."
        for temperatures in unequal[:1]
    ]
