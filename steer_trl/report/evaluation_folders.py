"""Finds the evaluations that belong to a run, among those in its folder.

Evaluations made with `steer-trl eval` are in any folder directly inside the run's folder. Those in a checkpoint are of
another model, and do not count. Evaluations made during training are in `benchmarks/step-N`. One of them counts only
if the run's log has its metrics at step N. Otherwise it is unfinished, or of an earlier run in the folder, or of steps
that the run has discarded by resuming from an earlier checkpoint.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steer_trl.evaluation.folders import find_samplings
from steer_trl.evaluation.records import SUMMARY
from steer_trl.evaluation.summary import flatten
from steer_trl.monitoring import run_files
from steer_trl.report.read import Run, is_finite_number

IN_TRAINING = "benchmarks"
STEP = re.compile(r"step-(\d{1,15})")


@dataclass(frozen=True)
class StepEvaluation:
    """An evaluation made during training.

    Attributes:
        step (`int`): the optimizer step after which the model was evaluated.
        folder (`Path`): the folder of the evaluation.
        intervals (`dict[str, tuple[float, float]]`): maps each of its keys in the run's log to the mean and the half
            width of the 95 % interval.
    """

    step: int
    folder: Path
    intervals: dict[str, tuple[float, float]]


def find_saved_evaluations(folder: Path) -> list[Path]:
    """Return the folders inside the folder of a run that `steer-trl eval` has written, sorted by name."""
    others = [path for path in _list_folders(folder) if path.name != IN_TRAINING]
    return [path for path in others if not path.name.startswith(run_files.CHECKPOINT) and find_samplings(path)]


def find_step_evaluations(run: Run) -> list[StepEvaluation]:
    """Return the evaluations made during the training of a run that its log has, by step."""
    found = []
    for step, path in sorted(find_step_folders(run.folder)):
        metrics = {key: (mean, half_width) for key, mean, half_width in _read_summaries(path)}
        logged = {key: pair for key, pair in metrics.items() if step in run.curves.get(key, {})}
        if logged:
            found.append(StepEvaluation(step, path, logged))
    return found


def find_step_folders(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the step and path of every folder `benchmarks/step-N` in the folder of a run, whether it counts or not."""
    for path in _list_folders(folder / IN_TRAINING):
        if match := STEP.fullmatch(path.name):
            yield int(match[1]), path


def _list_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


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
