"""Reads finished evaluations from their folders, and compares them problem by problem."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.evaluation.comparison import Difference, compare_values
from steer_trl.evaluation.records import COMPLETIONS, SETTINGS, SUMMARY, Judged, flatten_settings
from steer_trl.evaluation.summary import measure_problems
from steer_trl.exceptions import InvalidValueError
from steer_trl.validation import refuse

Values = dict[str, dict[str, dict[str, float]]]
"""Benchmark -> metric -> id of a problem -> value."""
OF_THE_QUESTION = ("sampling", "benchmarks", "answer_format", "judge", "timeout", "step")
"""Settings that comparable evaluations must share, except for `MAY_DIFFER`.

All other settings describe the model or its engine.
"""
MAY_DIFFER = ("sampling.seed", "step", "timeout")


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation in a folder, written by `steer-trl eval` or during training.

    Attributes:
        folder (`Path`): the folder that holds its files.
        settings (`dict`): the settings that its completions depend on, from `settings.json`.
    """

    folder: Path
    settings: dict[str, Any]

    def is_same(self, other: "Evaluation") -> bool:
        """Return whether `other` has the same folder and the same settings."""
        return self.folder.resolve() == other.folder.resolve() and self.settings == other.settings

    @cached_property
    def values(self) -> Values:
        """Benchmark -> metric -> id of a problem -> value. Raises `ValueError` for an incomplete file."""
        return _read_values(self.folder)


def _read_values(folder: Path) -> Values:
    try:
        judged = [Judged(**(entry or {})) for entry in runlog.lines(folder / COMPLETIONS)]
        judged.sort(key=lambda one: one.batch)
        samples: dict[str, Counter[str]] = {}
        for one in judged:
            samples.setdefault(one.benchmark, Counter())[one.id] += 1
        summary = _read(folder / SUMMARY)["benchmarks"]
        counted = {name: (one["problems"], {one["samples"]}) for name, one in summary.items()}
        if {name: (len(ids), set(ids.values())) for name, ids in samples.items()} != counted:
            raise InvalidValueError("some are missing, repeated or of other problems")
        return measure_problems(judged)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValueError(
            f"{str(folder / COMPLETIONS)!r} does not hold the completions that {SUMMARY} beside it counts: {error!r}. "
            "Evaluate again, with --overwrite true."
        ) from error


def _read(path: Path) -> dict[str, Any]:
    found = runlog.loads(path.read_bytes())
    if found is None:
        raise InvalidValueError(f"{str(path)!r} cannot be read as a mapping in JSON")
    return found


def read_evaluations(folder: str | Path) -> dict[str, Evaluation]:
    """Return the evaluations in a folder by the name of their sampling.

    The name is `""` for an evaluation that lies in `folder` itself.
    """
    folder = Path(folder)
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    found = {"": folder} | {path.name: path for path in inside}
    found = {name: path for name, path in found.items() if (path / COMPLETIONS).is_file()}
    if not found:
        raise InvalidValueError(
            f"{str(folder)!r} must be a folder that steer-trl eval has written, and holds no {COMPLETIONS}. Give one."
        )
    torn = [path for path in found.values() if not ((path / SUMMARY).is_file() and (path / SETTINGS).is_file())]
    unfinished = "{!r} holds an evaluation that has not ended. Run its command again, which resumes it."
    refuse([unfinished.format(str(path)) for path in torn], "evaluation")
    return {name: Evaluation(path, _read(path / SETTINGS)) for name, path in sorted(found.items())}


def compare_samplings(
    a: Sequence[Mapping[str, Evaluation]], b: Sequence[Mapping[str, Evaluation]], paired: bool = False
) -> dict[str, dict[str, dict[str, Difference]]]:
    """Compare two sides, sampling by sampling. A side has one [`read_evaluations`] result per seed.

    Returns:
        sampling -> benchmark -> metric -> [`Difference`].

    Raises:
        `ValueError`: the sides have different samplings, settings or problems.
    """
    names = list(a[0])
    for one in [*a, *b]:
        if list(one) != names:
            raise InvalidValueError(
                f"both sides must have the same samplings, got {names} and {list(one)} in "
                f"{next(iter(one.values())).folder}. Evaluate the one that is missing."
            )
    found = {}
    for name in names:
        sides = [one[name] for one in a], [one[name] for one in b]
        if different := find_different_settings(*sides):
            raise InvalidValueError(
                f"the two sides were evaluated in other ways ({'; '.join(different)}). Evaluate them alike."
            )
        found[name] = compare_evaluations(*sides, paired)
    return found


def compare_evaluations(
    a: Sequence[Evaluation], b: Sequence[Evaluation], paired: bool = False
) -> dict[str, dict[str, Difference]]:
    """Compare two sides with one evaluation per seed.

    Returns:
        benchmark -> metric -> [`Difference`] of B from A.
    """
    first, *others = [*a, *b]
    repeated = [one for one, other in combinations([first, *others], 2) if one.is_same(other)][:1]
    refuse([f"{one.folder} is given twice, and would count as two. Give it once." for one in repeated], "comparison")
    refuse([complaint for other in others for complaint in complain_about_problems(first, other)], "comparison")
    found: dict[str, dict[str, Difference]] = {}
    for name, metrics in first.values.items():
        found[name] = {}
        for metric, ids in metrics.items():
            rows_a = [[one.values[name][metric][i] for i in ids] for one in a]
            rows_b = [[one.values[name][metric][i] for i in ids] for one in b]
            found[name][metric] = compare_values(rows_a, rows_b, paired=paired)
    return found


def find_different_settings(a: Sequence[Evaluation], b: Sequence[Evaluation]) -> list[str]:
    """Return the settings that should match but differ between evaluations, each with both values."""
    first, *others = [*a, *b]
    here = _question(first.settings)
    found = [
        f"{name}: {here.get(name)!r} in {first.folder}, {there.get(name)!r} in {other.folder}"
        for other in others
        for there in [_question(other.settings)]
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name) and name not in MAY_DIFFER
    ]
    return list(dict.fromkeys(found))


def _question(settings: Mapping[str, Any]) -> dict[str, Any]:
    # Only the check of the boxed answer reads `answer_format`.
    idle = {"answer_format"} if "judge" in settings else set()
    return flatten_settings(
        {name: settings[name] for name in OF_THE_QUESTION if name in settings and name not in idle}
    )


def complain_about_problems(one: Evaluation, other: Evaluation) -> list[str]:
    """Return complaints if two evaluations differ in their problems or numbers of samples."""
    both = f"{one.folder} and {other.folder}"
    if one.values.keys() != other.values.keys():
        return [f"{both} must be of the same benchmarks, got {sorted(one.values)} and {sorted(other.values)}."]
    complaints = []
    for name, metrics in one.values.items():
        average, values = next(iter(metrics.items()))
        there = other.values[name].get(average)
        if there is None:
            complaints.append(f"{both} must have as many samples of each problem of {name!r}.")
        elif values.keys() != there.keys():
            complaints.append(f"{both} must have answered the same problems of {name!r}.")
    return complaints
