"""Reads finished evaluations from their folders, and compares them problem by problem."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from steer_trl.evaluation.comparison import Difference, compare_values
from steer_trl.evaluation.records import COMPLETIONS, SETTINGS, SUMMARY, flatten_settings, read_judged, read_mapping
from steer_trl.evaluation.summary import measure_problems
from steer_trl.monitoring import run_files
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import refuse

Values = dict[str, dict[str, dict[str, float]]]
"""The value of each metric for each problem, nested by benchmark, metric and problem id."""
QUESTION = {"sampling", "benchmarks", "answer_format", "judge"}
"""Settings that must be equal in comparable evaluations, apart from those listed in `MAY_DIFFER`.

Settings that are not listed here may differ.
"""
MAY_DIFFER = ("sampling.seed",)


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation in a folder, written by `steer-trl eval` or during training.

    Attributes:
        folder (`Path`): the folder that holds the files of the evaluation.
        settings (`dict`): the settings that the completions depend on, from `settings.json`.
    """

    folder: Path
    settings: dict[str, Any]

    @cached_property
    def values(self) -> Values:
        """The value of each metric for each problem, nested by benchmark, metric and problem id.

        Raises `ValueError` if the file of completions is incomplete.
        """
        return _read_values(self.folder)


def _read_values(folder: Path) -> Values:
    try:
        judged = [read_judged(entry) for entry in run_files.lines(folder / COMPLETIONS)]
        judged.sort(key=lambda record: record.batch)
        samples: dict[str, Counter[str]] = {}
        for record in judged:
            samples.setdefault(record.benchmark, Counter())[record.id] += 1
        summary = read_mapping(folder / SUMMARY)["benchmarks"]
        counted = {name: (row["problems"], {row["samples"]}) for name, row in summary.items()}
        if {name: (len(ids), set(ids.values())) for name, ids in samples.items()} != counted:
            raise InvalidValueError("some are missing, repeated or of other problems")
        return measure_problems(judged)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValueError(
            f"{str(folder / COMPLETIONS)!r} does not hold the completions that {SUMMARY} beside it counts: {error!r}. "
            "Evaluate again, with --overwrite true."
        ) from error


def _read_settings(path: Path) -> dict[str, Any]:
    settings = read_mapping(path)
    for name in ("sampling", "benchmarks"):
        if not isinstance(settings.get(name), dict):
            value = str(settings.get(name))[:60]
            raise InvalidValueError(f"{str(path)!r}: {name} must be a mapping, got {value!r}. Evaluate again.")
    return settings


def find_samplings(folder: Path) -> dict[str, Path]:
    """Return the folder of each sampling of the evaluation in `folder`, by the sampling's name.

    The name is `""` for an evaluation that lies in `folder` itself. The result is empty if there is no evaluation. A
    checkpoint inside `folder` is not a sampling, because an evaluation in it is of another model.
    """
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    places = {"": folder} | {path.name: path for path in inside if not path.name.startswith(run_files.CHECKPOINT)}
    return {name: path for name, path in places.items() if (path / COMPLETIONS).is_file()}


def read_evaluations(folder: str | Path) -> dict[str, Evaluation]:
    """Read the evaluations in a folder, and return a mapping from sampling names to evaluations.

    The sampling name is `""` for an evaluation that lies in `folder` itself.
    """
    folder = Path(folder)
    folders = find_samplings(folder)
    if not folders:
        raise InvalidValueError(
            f"{str(folder)!r} must be a folder that steer-trl eval has written, and holds no {COMPLETIONS}. Give one."
        )
    complaints = []
    for path in folders.values():
        if not all((path / name).is_file() for name in (SUMMARY, SETTINGS)):
            complaints.append(
                f"{str(path)!r} holds an evaluation that has not ended. Run its command again, which resumes it."
            )
    refuse(complaints, "evaluation")
    return {name: Evaluation(path, _read_settings(path / SETTINGS)) for name, path in sorted(folders.items())}


def compare_samplings(
    a: Sequence[Mapping[str, Evaluation]], b: Sequence[Mapping[str, Evaluation]], paired: bool = False
) -> dict[str, dict[str, dict[str, Difference]]]:
    """Compare two sides, separately for each sampling.

    A side is a list with the result of [`read_evaluations`] for each seed.

    Returns:
        the [`Difference`] of side B from side A, nested by sampling, benchmark and metric.

    Raises:
        `ValueError`: the sides have different samplings, settings or problems.
    """
    names = list(a[0])
    for evaluations in [*a, *b]:
        if list(evaluations) != names:
            raise InvalidValueError(
                f"both sides must have the same samplings, got {names} and {list(evaluations)} in "
                f"{next(iter(evaluations.values())).folder}. Evaluate the one that is missing."
            )
    sides = {
        name: ([evaluations[name] for evaluations in a], [evaluations[name] for evaluations in b]) for name in names
    }
    return {name: compare_evaluations(*pair_of_sides, paired) for name, pair_of_sides in sides.items()}


def compare_evaluations(
    a: Sequence[Evaluation], b: Sequence[Evaluation], paired: bool = False
) -> dict[str, dict[str, Difference]]:
    """Compare two sides. A side is a list with an evaluation for each seed.

    Returns:
        the [`Difference`] of side B from side A, nested by benchmark and metric.
    """
    first, *others = [*a, *b]
    folders = [evaluation.folder.resolve() for evaluation in [first, *others]]
    repeated = [evaluation.folder for evaluation in others if folders.count(evaluation.folder.resolve()) > 1][:1]
    refuse([f"{folder} is given twice, and would count as two. Give it once." for folder in repeated], "comparison")
    refuse(comparison_complaints(first, others), "comparison")
    differences: dict[str, dict[str, Difference]] = {}
    for name, metrics in first.values.items():
        differences[name] = {}
        for metric, ids in metrics.items():
            rows_a = [[evaluation.values[name][metric][i] for i in ids] for evaluation in a]
            rows_b = [[evaluation.values[name][metric][i] for i in ids] for evaluation in b]
            differences[name][metric] = compare_values(rows_a, rows_b, paired=paired)
    return differences


def comparison_complaints(
    first: Evaluation, others: Sequence[Evaluation], varying: Collection[str] = MAY_DIFFER
) -> list[str]:
    """Return complaints if evaluations differ in their problems or in a setting that `QUESTION` lists.

    The settings in `varying` may differ.
    """
    different = []
    first_question = _question(first.settings)
    for evaluation in others:
        question = _question(evaluation.settings)
        for name in sorted(first_question.keys() | question.keys()):
            if first_question.get(name) != question.get(name) and name not in varying:
                pair = f"{first_question.get(name)!r} in {first.folder}, {question.get(name)!r} in {evaluation.folder}"
                different.append(f"{name}: {pair}")
    if different:
        return [f"they were evaluated in other ways ({'; '.join(different)}). Evaluate them alike."]
    return [complaint for evaluation in others for complaint in complain_about_problems(first, evaluation)]


def _question(settings: Mapping[str, Any]) -> dict[str, Any]:
    # If a custom judge was used, `answer_format` has no effect, because only the built-in judge reads it.
    idle = {"answer_format"} if "judge" in settings else set()
    return flatten_settings({name: value for name, value in settings.items() if name in QUESTION - idle})


def complain_about_problems(a: Evaluation, b: Evaluation) -> list[str]:
    """Return complaints if two evaluations differ in their problems or numbers of samples."""
    subject = f"{a.folder} and {b.folder}"
    if a.values.keys() != b.values.keys():
        return [f"{subject} must be of the same benchmarks, got {sorted(a.values)} and {sorted(b.values)}."]
    complaints = []
    for name, metrics in a.values.items():
        average, values_of_a = next(iter(metrics.items()))
        values_of_b = b.values[name].get(average)
        if values_of_b is None:
            complaints.append(f"{subject} must have as many samples of each problem of {name!r}.")
        elif values_of_a.keys() != values_of_b.keys():
            complaints.append(f"{subject} must have answered the same problems of {name!r}.")
    return complaints
