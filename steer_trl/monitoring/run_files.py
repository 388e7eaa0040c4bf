"""Writes and reads the files of a run in `<output_dir>/_logs`. Reading them needs neither torch nor TRL.

    run.json                     settings, methods, commit, package versions, times of the start and of each resume
    metrics.jsonl                one line per log entry: step, epoch, time, and every key of the log
    alarms.jsonl                 one line per alarm
    tokens/step-00000050.jsonl   one line per completion, with the numbers of each token (`log_tokens`)

A line is written in a single call, so only the last line of a killed run can be incomplete. A resumed run first
removes the lines after its checkpoint. Transformers leaves files whose names begin with `_` out of every push.
"""

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from steer_trl.support.system import write_text_whole
from steer_trl.support.validation import is_number, keep_valid

LOGS, RUN, METRICS, ALARMS, TOKENS = "_logs", "run.json", "metrics.jsonl", "alarms.jsonl", "tokens"
SCHEMA = 1
CHECKPOINT = "checkpoint-"
LARGEST = 1e15
"""A number in a file that is not smaller than this cannot be a time or a number of steps."""
TOKEN_FILE = re.compile(r"step-(\d{1,15})\.jsonl")


def append(output_dir: str | Path, entry: Mapping[str, Any], name: str = METRICS) -> None:
    """Append `entry` as one line to the file `name` in the `_logs` folder of a run.

    `entry` holds strings, numbers, lists and mappings. If it has no time, the current time is added. A number that is
    not finite becomes `null`. A script can log its own evaluations with
    `append(folder, {"step": 80, "eval_my_accuracy": 0.4})`.
    """
    path = Path(output_dir, LOGS, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(as_json({**entry, "time": entry.get("time", round(time.time(), 3))}), separators=(",", ":"))
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def as_json(value: Any) -> Any:
    """Convert `value` to JSON types. A number that is not finite becomes `None`."""
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def begin(output_dir: str | Path, step: int, description: Mapping[str, Any]) -> None:
    """Prepare `_logs` for a run that continues after optimizer step `step`, and write its `run.json`.

    If `step` is 0, the run is new, and the logs of an earlier run are moved to `_logs.1`, `_logs.2` and so on.
    """
    folder = Path(output_dir, LOGS)
    before: dict[str, Any] = {}
    if step == 0:
        _put_aside(folder)
    else:
        before = read_description(folder)
        for name in (METRICS, ALARMS):
            _cut(folder / name, step)
        for written_at, path in token_files(folder):
            if written_at > step:
                path.unlink()
        # The last file may have lines from after the checkpoint, because its rollout can last several steps.
        for _, path in token_files(folder)[-1:]:
            _cut(path, step)
    folder.mkdir(parents=True, exist_ok=True)
    now = round(time.time(), 3)
    resumed = [*before.get("resumed", []), {"step": step, "time": now}] if step else []
    run = {"schema_version": SCHEMA, "started": before.get("started", now), "resumed": resumed, **description}
    text = json.dumps(as_json(run), indent=1)
    write_text_whole(folder / RUN, text)


def lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the mapping in each line of a file, or `None` for a line that is incomplete or not a mapping."""
    if path.is_file():
        with path.open("rb") as file:
            yield from (loads(line) for line in file if line.strip())


def loads(text: bytes) -> dict[str, Any] | None:
    """Parse a JSON mapping, in which NaN and infinities become `None`. Return `None` for any other text."""
    try:
        value = json.loads(text.decode(errors="replace"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def step_of(entry: Mapping[str, Any]) -> int:
    """Return the optimizer step of a log entry; 0 if it is missing or invalid."""
    step = entry.get("step")
    return step if isinstance(step, int) and 0 <= step < 10**15 else 0


def read_description(folder: Path, notes: list[str] | None = None) -> dict[str, Any]:
    """Return the fields of `run.json` in a `_logs` folder that have the type in `FIELDS`.

    A field that is missing or has another type is left out, and so are all if the file is unreadable. `notes` gets a
    sentence about each, except about missing fields.
    """
    path = folder / RUN
    if not path.is_file():
        return {}
    description = loads(path.read_bytes())
    if description is None:
        notes = [] if notes is None else notes
        notes.append(f"{RUN} could not be read.")
        return {}
    return keep_valid(description, FIELDS, RUN, notes)


def is_count(value: Any) -> bool:
    """Return whether a value from a file can be a time in seconds or a number of steps."""
    return is_number(value) and 0 <= value < LARGEST


def _are_resumes(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) and is_count(entry.get("step")) for entry in value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


FIELDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("schema_version", "started", "max_steps", "processes"), is_count),
    **dict.fromkeys(("settings", "defaults", "versions", "code"), _is_mapping),
    "resumed": _are_resumes,
    "methods": _are_texts,
    "model": lambda value: value is None or isinstance(value, str),
}
"""The fields of `run.json` that are read, each with the test of its value."""


def find_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in the folder of a run, latest first."""
    steps = {path: path.name.removeprefix(CHECKPOINT) for path in folder.glob(f"{CHECKPOINT}*")}
    numbered = [path for path, step in steps.items() if step.isdecimal()]
    return sorted(numbered, key=lambda path: int(steps[path]), reverse=True)


def find_run_files(folder: Path, names: Sequence[str] = (LOGS,)) -> list[Path]:
    """Return the checkpoints in `folder`, latest first.

    If there are none, return the files in `names` that exist in `folder`.
    """
    return find_checkpoints(folder) or [folder / name for name in names if (folder / name).exists()]


def token_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the optimizer step and path of each token file in a `_logs` folder, in the order of the steps."""
    matches = [(TOKEN_FILE.fullmatch(path.name), path) for path in folder.glob(f"{TOKENS}/step-*.jsonl")]
    return sorted((int(match[1]), path) for match, path in matches if match)


def token_path(output_dir: str | Path, step: int) -> Path:
    """Return the path of the token file for the rollout whose training begins at optimizer step `step`."""
    return Path(output_dir, LOGS, TOKENS, f"step-{step:08d}.jsonl")


def _put_aside(folder: Path) -> None:
    if not folder.exists():
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)


def _cut(path: Path, step: int) -> None:
    """Remove the lines of optimizer steps after `step`, and incomplete lines."""
    if path.exists():
        earlier_entries = [entry for entry in lines(path) if entry is not None and step_of(entry) <= step]
        text = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in earlier_entries)
        write_text_whole(path, text)
