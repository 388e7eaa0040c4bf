"""Collects the temperature sweeps of runs for the pictures of one try against pass@k.

Runs are drawn together only if `steer-trl compare --frontier` compares them. The others have pictures of their own,
with the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from steer_trl.evaluation.sweeps import ByTemperature, complain_about_sweeps, group_sweeps
from steer_trl.report.evaluations import RunEvaluations, Samplings, list_names, to_one_line
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import refuse


@dataclass
class SweepGroup:
    """Runs whose sweeps can be compared, and so be drawn in one picture.

    Attributes:
        sweeps (`dict[int, ByTemperature]`): maps the number of each run to its sweep.
        apart (`dict`, *optional*): why these runs are not drawn together with those of the first group: the number of
            the first group's first `run`, and the reason, `why`.
    """

    sweeps: dict[int, ByTemperature]
    apart: dict[str, Any] | None = None

    @property
    def first_run(self) -> int:
        """The number of the first run."""
        return next(iter(self.sweeps))

    @property
    def first_sweep(self) -> ByTemperature:
        """The sweep of the first run."""
        return self.sweeps[self.first_run]


def draw_frontiers(evaluations: Sequence[RunEvaluations]) -> list[dict[str, Any]]:
    """Return the data of a picture for each folder name, each group of comparable runs, and each benchmark.

    In a picture, each run has a curve with a point for each temperature. Runs that were sampled at one temperature
    only are skipped. A run whose own evaluations cannot be compared has a picture without curves, with the reason.
    """
    pictures = []
    for name in list_names(evaluations):
        sweeps: dict[int, ByTemperature] = {}
        for run, run_evaluations in enumerate(evaluations):
            try:
                sweep = _find_sweep(run_evaluations.by_folder.get(name, {}))
            except InvalidValueError as error:
                refused = {"run": run, "why": to_one_line(error)}
                pictures.append({"name": name, "benchmark": "", "curves": [], "tries": [], "apart": refused})
                continue
            if len(sweep) > 1:
                sweeps[run] = sweep
        for group in _group_comparable(sweeps):
            pictures += _draw_group(name, group)
    return pictures


def _find_sweep(samplings: Samplings) -> ByTemperature:
    """Return the largest set of samplings that differ only in temperature and seed, by temperature.

    Raises `ValueError` if they cannot be read, or were not drawn for the same problems in the same way.
    """
    sweep = max(group_sweeps(samplings.values()).values(), key=len, default={})
    if len(sweep) > 1:
        refuse(complain_about_sweeps([sweep]), "frontier")
    return sweep


def _group_comparable(sweeps: Mapping[int, ByTemperature]) -> list[SweepGroup]:
    """Group the runs so that all runs of a group can be compared. `sweeps` maps the number of a run to its sweep."""
    groups: list[SweepGroup] = []
    for run, sweep in sweeps.items():
        complaints = [complain_about_sweeps([group.first_sweep, sweep]) for group in groups]
        if [] in complaints:
            groups[complaints.index([])].sweeps[run] = sweep
        else:
            # The first complaint says enough; the others are often the same about other temperatures.
            apart = {"run": groups[0].first_run, "why": to_one_line(complaints[0][0])} if groups else None
            groups.append(SweepGroup({run: sweep}, apart))
    return groups


def _draw_group(name: str, group: SweepGroup) -> list[dict[str, Any]]:
    """Return a picture for each benchmark, with the numbers of tries that all its points have."""
    pictures = []
    first_evaluation = next(iter(group.first_sweep.values()))
    for benchmark in first_evaluation.values:
        points = {run: _read_points(sweep, benchmark) for run, sweep in group.sweeps.items()}
        curves = [{"run": run, "points": own} for run, own in points.items()]
        tries = set.intersection(*({*point["solved"]} for own in points.values() for point in own))
        picture = {"name": name, "benchmark": benchmark, "curves": curves, "tries": sorted(tries)}
        pictures.append(picture | {"apart": group.apart})
    return pictures


def _read_points(sweep: ByTemperature, benchmark: str) -> list[dict[str, Any]]:
    """Return each temperature with the shares of problems solved at it."""
    return [
        {"temperature": temperature, "solved": _find_solved(evaluation.values[benchmark])}
        for temperature, evaluation in sweep.items()
    ]


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
