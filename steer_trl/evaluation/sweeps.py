"""Evaluations of runs at several temperatures, put together from folders and published files: two sides to compare.

A run may be given in pieces: folders of one model, or files of one name. Of its samplings those count that differ from
each other in the temperature only; where there are several such sets, the largest of side A's first run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from steer_trl.evaluation.counts import counts_of
from steer_trl.evaluation.folders import Evaluation, differing_settings, other_problems, read_evaluations
from steer_trl.evaluation.frontier import Sides, Sweep
from steer_trl.exceptions import InvalidValueError
from steer_trl.validation import is_within, refuse

OF_THE_MODEL = ("model_name_or_path", "model_revision", "model_files", "step")
VARIES = ("temperature", "seed")
"""Settings of a sampling in which the points of a sweep differ."""
Run = Mapping[float, Evaluation]
"""The evaluations of a run by temperature, coldest first."""
Way = tuple[tuple[str, str], ...]


def read_sides(
    a: Sequence[str], b: Sequence[str], fallback: Sequence[str] = (), paired: bool = False
) -> dict[str, Sides]:
    """Return what both sides have answered, by benchmark.

    Args:
        a, b: folders that `steer-trl eval` has written, or published files, of one run or of several.
        fallback: the same of one other model, or of one for each start.
        paired: whether the n-th runs belong together; published ones of the same starts and seeds are paired anyway.
    """
    given = [_runs_of(paths) for paths in (a, b, fallback)]
    way = max(given[0][0], key=lambda way: len(given[0][0][way]), default=())
    ours, theirs, others = ([run.get(way, {}) for run in side] for side in given)
    refuse(_temperature_complaints([*ours, *theirs], 2) + _temperature_complaints(others, 1), "frontier")
    first, *rest = (one for run in [*ours, *theirs, *others] for one in run.values())
    refuse(_question_complaints(first, rest), "frontier")
    of_a = {one.folder.resolve() for run in ours for one in run.values()}
    twice = [one.folder for run in theirs for one in run.values() if one.folder.resolve() in of_a]
    refuse([f"{one} is on both sides. Give two models." for one in twice[:1]], "frontier")
    pairs = [[_start_and_seed(run) for run in side] for side in (ours, theirs)]
    starts = None
    if 1 < len(ours) == len(theirs) == len(set(pairs[0])) and set(pairs[0]) == set(pairs[1]):
        ours, theirs = (sorted(side, key=_start_and_seed) for side in (ours, theirs))
        paired, starts = True, [start for start, _ in sorted(pairs[0])]
    elif paired and all(pair for side in pairs for pair in side):
        raise InvalidValueError(f"paired runs must be of the same starts and seeds, got {pairs[0]} and {pairs[1]}.")
    swept = [sweeps(side) for side in (ours, theirs)]
    swept += [sweeps([_of_the_start(run, others) for run in side]) for side in (ours, theirs) if others]
    return {
        name: Sides(swept[0][name], swept[1][name], paired, starts, *(one[name] for one in swept[2:]))
        for name in swept[0]
    }


def sweeps_in(evaluations: Iterable[Evaluation]) -> dict[Way, Run]:
    """Return the evaluations of a run by how they were drawn, the temperature apart; greedy ones have no place."""
    found: dict[Way, dict[float, Evaluation]] = {}
    for one in evaluations:
        given = one.settings.get("sampling")
        sampling: dict[str, Any] = given if isinstance(given, dict) else {}
        temperature: Any = sampling.get("temperature")
        if is_within(temperature, "(0, inf)"):
            way = tuple(sorted((key, repr(value)) for key, value in sampling.items() if key not in VARIES))
            before = found.setdefault(way, {}).setdefault(temperature, one)
            if before is not one:
                raise InvalidValueError(
                    f"{one.folder} and {before.folder} are of one run and both at temperature {temperature}. Give one."
                )
    return {way: dict(sorted(run.items())) for way, run in found.items()}


def sweeps(runs: Sequence[Run]) -> dict[str, Sweep]:
    """Return the counts of runs that have answered the same problems at the same temperatures, by benchmark."""
    temperatures = tuple(runs[0])
    counts = [[counts_of(run[temperature].values) for run in runs] for temperature in temperatures]
    return {
        name: Sweep(
            temperatures,
            np.array([[_in_order(one[name]) for one in at_temperature] for at_temperature in counts]),
            first["samples"],
        )
        for name, first in counts[0][0].items()
    }


def _in_order(counts: Mapping[str, Any]) -> list[int]:
    return [count for _, count in sorted(zip(counts["ids"], counts["correct"], strict=True))]


def _runs_of(paths: Sequence[str]) -> list[dict[Way, Run]]:
    """The runs of a side, each of one or several paths, in the order in which they are given."""
    pieces: dict[str, list[Evaluation]] = {}
    for path in paths:
        for one in read_evaluations(path).values():
            of_the_model = repr([one.settings.get(name) for name in OF_THE_MODEL])
            pieces.setdefault(one.folder.name if one.counts else of_the_model, []).append(one)
    return [sweeps_in(evaluations) for evaluations in pieces.values()]


def _start_and_seed(run: Run) -> tuple[int, ...]:
    """Those of a published run; of others nothing is known."""
    return next(iter(run.values())).run or ()


def _of_the_start(run: Run, others: Sequence[Run]) -> Run:
    """The fallback of a run: the only one, or that of its start."""
    start = _start_and_seed(run)[:1]
    found = others if len(others) == 1 else [one for one in others if start and _start_and_seed(one)[:1] == start]
    if len(found) != 1:
        raise InvalidValueError(
            f"fallback must be one model, or one of each start, got {len(found)} of {len(others)} for "
            f"{next(iter(run.values())).folder}. Give published files of the starts, or one model."
        )
    return found[0]


def _temperature_complaints(runs: Sequence[Run], least: int) -> list[str]:
    lists = [list(run) for run in runs]
    wrong = [found for found in lists if found != lists[0] or len(found) < least]
    return [
        f"every run must have been sampled at the same temperatures, {least} or more, got {lists[0]} and {found}. "
        "steer-trl eval --temperatures .25 .5 .75 1 1.25 draws them."
        for found in wrong[:1]
    ]


def _question_complaints(first: Evaluation, rest: Sequence[Evaluation]) -> list[str]:
    different = [one for one in differing_settings([first], rest) if not one.startswith("sampling.temperature:")]
    if different:
        return [f"they were evaluated in other ways ({'; '.join(different)}). Evaluate them alike."]
    return [complaint for one in rest for complaint in other_problems(first, one)]
