"""A run's folder, read as it is: of a run that goes on, was killed, was resumed, or was trained by TRL alone.

The log is `_logs/metrics.jsonl`. Where that begins late or is missing, it is `log_history` in `trainer_state.json`, of
the folder or of its last checkpoint. A line that is no entry is left out and counted.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from steer_trl import runlog
from steer_trl.exceptions import InvalidValueError

STATE = "trainer_state.json"
CHECKPOINT = re.compile(r"checkpoint-(\d{1,15})")
FIELDS = {"model": str, "versions": dict, "code": dict, "settings": dict, "defaults": dict}


class NoRun(InvalidValueError):
    """A folder without a log; its text is one line for the user."""


@dataclass
class Run:
    """What a folder says of a run.

    Attributes:
        description (`dict`): `_logs/run.json`; what cannot be shown is left out.
        curves (`dict[str, dict[int, float]]`): the value of each key of the log by optimizer step.
        times (`dict[int, float]`): when a step was logged, seconds since 1970.
        looks (`list[tuple[int, Path]]`): files of single tokens with their steps.
        notes (`list[str]`): what a reader of the page should know about the folder.
    """

    name: str
    folder: Path
    description: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    looks: list[tuple[int, Path]] = field(default_factory=list)
    last_step: int = 0
    max_steps: int | None = None
    is_finished: bool = False
    notes: list[str] = field(default_factory=list)


def find_runs(paths: Sequence[str | Path]) -> list[Run]:
    """Read the runs in `paths`; a folder that is none itself stands for those directly inside of it."""
    folders: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            raise NoRun(f"{path} is not a folder. Give the output_dir of a run.")
        inside = [path] if _has_log(path) else sorted(one for one in path.iterdir() if one.is_dir() and _has_log(one))
        if not inside:
            raise NoRun(
                f"{path} has no log: neither {runlog.LOGS}/{runlog.METRICS} nor a {STATE}, and no folder in it has. "
                "Give the output_dir of a run that has logged something."
            )
        folders += inside
    folders = list(dict.fromkeys(folders))
    names = [folder.resolve().name for folder in folders]
    runs = [
        read_run(folder, name if names.count(name) == 1 else f"{folder.resolve().parent.name}/{name}")
        for folder, name in zip(folders, names, strict=True)
    ]
    for run in runs:
        if not run.curves:
            raise NoRun(
                f"{run.folder} has a log without a single number in it. Was the run shorter than its logging_steps?"
            )
    return runs


def read_run(folder: Path, name: str) -> Run:
    """Read one folder, whatever is in it."""
    logs = folder / runlog.LOGS
    run = Run(name, folder, described(runlog.read_description(logs)))
    entries = _entries(logs / runlog.METRICS, run)
    state, where = _state(folder, run)
    begins = min(map(runlog.step_of, entries), default=math.inf)
    history = state.get("log_history")
    history = [entry for entry in history if isinstance(entry, dict)] if isinstance(history, list) else []
    earlier = [entry for entry in history if runlog.step_of(entry) < begins]
    if earlier:
        run.notes.append(f"The log up to step {runlog.step_of(earlier[-1])} is that of {where}.")
    for entry in [*earlier, *entries]:
        _take(run, entry)
    most = run.description.get("max_steps", state.get("max_steps"))
    run.max_steps = int(most) if is_number(most) and most > 0 else None
    run.is_finished = run.last_step in run.curves.get("train_runtime", {})
    run.alarms = _entries(logs / runlog.ALARMS, run)
    run.looks = runlog.token_files(logs)
    return run


def described(given: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows of `run.json`, as far as it is of the types that we write."""
    found = {name: given[name] for name, kind in FIELDS.items() if isinstance(given.get(name), kind)}
    found |= {name: given[name] for name in ("started", "max_steps") if is_number(given.get(name))}
    if isinstance(methods := given.get("methods"), list):
        found["methods"] = list(map(str, methods))
    if isinstance(resumed := given.get("resumed"), list):
        found["resumed"] = [runlog.step_of(one) for one in resumed if isinstance(one, dict)]
    return found


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of JSON is a finite number that a curve can show."""
    # NaN is not, nor an integer of a thousand digits.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def shortened(text: str, longest: int = 300) -> str:
    """Return `text` with at most `longest` characters, and a mark where some are left out."""
    return text if len(text) <= longest else f"{text[:longest]} [...]"


def _has_log(folder: Path) -> bool:
    return (folder / runlog.LOGS / runlog.METRICS).is_file() or bool(_states(folder))


def _states(folder: Path) -> list[Path]:
    """The states of a folder and its checkpoints, the latest first."""
    numbered = [(CHECKPOINT.fullmatch(path.parent.name), path) for path in folder.glob(f"checkpoint-*/{STATE}")]
    ordered = [path for _, path in sorted(((int(m[1]), path) for m, path in numbered if m), reverse=True)]
    return [path for path in (folder / STATE, *ordered) if path.is_file()]


def _state(folder: Path, run: Run) -> tuple[dict[str, Any], str]:
    for path in _states(folder):
        where = str(path.relative_to(folder))
        if (state := runlog.loads(path.read_bytes())) is not None:
            return state, where
        run.notes.append(f"{where} could not be read.")
    return {}, ""


def _entries(path: Path, run: Run) -> list[dict[str, Any]]:
    """The mappings of a file of lines; a note says how many lines are none."""
    found = list(runlog.lines(path))
    if torn := found.count(None):
        run.notes.append(f"{torn} line(s) of {path.name} could not be read.")
    return [entry for entry in found if entry is not None]


def _take(run: Run, entry: dict[str, Any]) -> None:
    step = runlog.step_of(entry)
    run.last_step = max(run.last_step, step)
    if is_number(entry.get("time")):
        run.times[step] = entry["time"]
    for key, value in entry.items():
        if key not in ("step", "epoch", "time") and is_number(value):
            run.curves.setdefault(key, {})[step] = float(value)
