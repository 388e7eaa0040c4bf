"""Reads the folder of a run. The run may be unfinished, killed or resumed, or come from a plain TRL trainer.

The log is `_logs/metrics.jsonl`. If this file is missing or lacks the first steps, these steps are read from
`log_history` in `trainer_state.json`, in the folder itself or in its last checkpoint. Unreadable lines are skipped and
counted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from steer_trl.monitoring import run_files
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import is_number, keep_valid

STATE = "trainer_state.json"
FIELDS_OF_STATE = {
    "log_history": lambda value: isinstance(value, list) and all(isinstance(entry, dict) for entry in value),
    "max_steps": run_files.is_count,
}
"""The fields of a trainer state that are read, each with the test of its value."""


class NoRun(InvalidValueError):
    """Raised for a folder without a log. The message is one line for the user."""


@dataclass
class Run:
    """The contents of a run's folder.

    Attributes:
        description (`dict`): the contents of `_logs/run.json`.
        curves (`dict[str, dict[int, float]]`): maps each key of the log to its value at each optimizer step.
        times (`dict[int, float]`): maps a step to the time at which it was logged, in seconds since 1970.
        token_steps (`list[tuple[int, Path]]`): each step for which tokens of completions were recorded, and the file
            that holds them.
        epoch (`float`): the number of passes over the data so far.
        notes (`list[str]`): remarks about the folder for the reader of the page.
    """

    name: str
    folder: Path
    description: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    token_steps: list[tuple[int, Path]] = field(default_factory=list)
    last_step: int = 0
    max_steps: int | None = None
    epoch: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings of the run that are known, including those left at their default."""
        return self.description.get("defaults", {}) | self.description.get("settings", {})


def find_runs(paths: Sequence[str | Path]) -> list[Run]:
    """Read the runs in `paths`. If a folder has no log, the runs directly inside it are read."""
    folders: list[Path] = []
    for path in map(Path, paths):
        folders += _find_folders(path)
    folders = list(dict.fromkeys(folders))
    names = [folder.resolve().name for folder in folders]
    runs = []
    for folder, name in zip(folders, names, strict=True):
        is_unique = names.count(name) == 1
        runs.append(read_run(folder, name if is_unique else f"{folder.resolve().parent.name}/{name}"))
    return runs


def _find_folders(path: Path) -> list[Path]:
    if not path.is_dir():
        raise NoRun(f"{path} is not a folder. Give the output_dir of a run.")
    if _has_log(path):
        return [path]
    inside = sorted(entry for entry in path.iterdir() if entry.is_dir() and _has_log(entry))
    if not inside:
        raise NoRun(
            f"{path} has no log: it contains neither {run_files.LOGS}/{run_files.METRICS} nor {STATE}, and no folder "
            "in it does. Give the output_dir of a run that has logged something."
        )
    return inside


def read_run(folder: Path, name: str) -> Run:
    """Read the run in one folder. Raises [`NoRun`] if the log contains no numbers."""
    logs = folder / run_files.LOGS
    notes: list[str] = []
    run = Run(name, folder, run_files.read_description(logs, notes), notes=notes)
    entries = _read_lines(logs / run_files.METRICS, run)
    first_step = min(map(run_files.step_of, entries), default=math.inf)
    state, state_path = _read_state(folder, run)
    earlier = [entry for entry in state.get("log_history", []) if run_files.step_of(entry) < first_step]
    if earlier:
        run.notes.append(f"The log up to step {run_files.step_of(earlier[-1])} comes from {state_path}.")
    for entry in [*earlier, *entries]:
        _add_entry(run, entry)
    if not run.curves:
        remarks = "".join(f" {note}" for note in run.notes)
        raise NoRun(
            f"{folder} has a log without a single number. Was the run shorter than its logging_steps?{remarks}"
        )
    run.max_steps = run.description.get("max_steps", state.get("max_steps")) or None
    run.alarms = _read_lines(logs / run_files.ALARMS, run)
    run.token_steps = run_files.token_files(logs)
    return run


def is_finite_number(value: Any) -> TypeGuard[float]:
    """Return whether a value from JSON can be a point of a curve.

    It cannot if it is NaN, infinite, or an integer with hundreds of digits.
    """
    return is_number(value) and abs(value) < 1e300


def shorten(text: str, longest: int = 300) -> str:
    """Return `text`, cut after `longest` characters. If it was longer, ` [...]` is appended."""
    return text if len(text) <= longest else f"{text[:longest]} [...]"


def _has_log(folder: Path) -> bool:
    return (folder / run_files.LOGS / run_files.METRICS).is_file() or bool(_find_states(folder))


def _find_states(folder: Path) -> list[Path]:
    """Return the paths of the trainer states in a folder and in its checkpoints, the latest first."""
    return [path for place in [folder, *run_files.find_checkpoints(folder)] if (path := place / STATE).is_file()]


def _read_state(folder: Path, run: Run) -> tuple[dict[str, Any], str]:
    """Return the latest trainer state that can be read, and its path within the folder."""
    for path in _find_states(folder):
        within = str(path.relative_to(folder))
        if (state := run_files.loads(path.read_bytes())) is not None:
            return keep_valid(state, FIELDS_OF_STATE, within, run.notes), within
        run.notes.append(f"{within} could not be read.")
    return {}, ""


def _read_lines(path: Path, run: Run) -> list[dict[str, Any]]:
    """Return the entries of a JSONL file. If lines cannot be read, their number is noted in the run."""
    entries = list(run_files.lines(path))
    if unread := entries.count(None):
        run.notes.append(f"{unread} line(s) of {path.name} could not be read.")
    return [entry for entry in entries if entry is not None]


def _add_entry(run: Run, entry: dict[str, Any]) -> None:
    step = run_files.step_of(entry)
    numbers = {key: float(value) for key, value in entry.items() if key != "step" and is_finite_number(value)}
    run.last_step = max(run.last_step, step)
    run.epoch = max(run.epoch, numbers.pop("epoch", 0.0))
    if "time" in numbers:
        run.times[step] = numbers.pop("time")
    for key, value in numbers.items():
        run.curves.setdefault(key, {})[step] = value
