"""Writes every judged completion to a JSONL file, from which an interrupted evaluation is resumed.

A batch is written as soon as it is judged. If the evaluation is interrupted, the file may end with
an incomplete batch, which is dropped on resuming. `settings.json` in the same folder holds the
settings that the completions depend on. An evaluation with different settings cannot be resumed
from the folder.
"""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from steer_trl.monitoring import run_files
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.system import write_text_whole

logger = logging.getLogger(__name__)

SETTINGS, COMPLETIONS, SUMMARY = "settings.json", "completions.jsonl", "summary.json"


class SampleRecord(NamedTuple):
    """A judged sample of a problem, which is one line of `completions.jsonl`.

    Attributes:
        batch (`int`): the number of the batch in which the sample was drawn.
        benchmark (`str`), id (`str`), sample (`int`): the benchmark, the problem's id, and the
            number of the sample among the problem's samples.
        answer (`str`, *optional*), correct (`bool`), timed_out (`bool`), vote (`str`, *optional*):
            the verdict on the completion, as in [`~steer_trl.rewards.Verdict`].
        truncated (`bool`), num_tokens (`int`), completion (`str`): whether the completion was cut
            off at the length limit, its length in tokens, and its text.
    """

    batch: int
    benchmark: str
    id: str
    sample: int
    answer: str | None
    correct: bool
    timed_out: bool
    vote: str | None
    truncated: bool
    num_tokens: int
    completion: str


TYPES = {
    **dict.fromkeys(("batch", "sample", "num_tokens"), (int,)),
    **dict.fromkeys(("benchmark", "id", "completion"), (str,)),
    **dict.fromkeys(("correct", "timed_out", "truncated"), (bool,)),
    **dict.fromkeys(("answer", "vote"), (str, type(None))),
}
"""The types of each field of `SampleRecord`."""


def read_judged(entry: Mapping[str, Any] | None) -> SampleRecord:
    """Return the judged sample in a line of `completions.jsonl`.

    Raises `ValueError` if the line is unreadable (`entry` is `None`), or if a field is missing, unknown or of another
    type. The caller names the file.
    """
    if entry is None:
        raise InvalidValueError("a line is not a mapping in JSON")
    for name, types in TYPES.items():
        # The type is compared, because `True` is an `int` as well.
        if name not in entry or type(entry[name]) not in types:
            kinds = " or ".join(kind.__name__ for kind in types)
            raise InvalidValueError(f"{name} must be {kinds}, got {str(entry.get(name))[:60]!r}")
        if types == (int,) and not 0 <= entry[name] < run_files.LARGEST:
            raise InvalidValueError(f"{name} must be in [0, {run_files.LARGEST:g}), got {str(entry[name])[:60]}")
    if unknown := entry.keys() - TYPES.keys():
        raise InvalidValueError(f"unknown field {min(unknown)!r}")
    return SampleRecord(**entry)


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file. Raises `ValueError` with the file's name if it holds anything else."""
    content = run_files.loads(path.read_bytes())
    if content is None:
        raise InvalidValueError(f"{str(path)!r} cannot be read as a mapping in JSON")
    return content


class Records:
    """The files of one evaluation: its settings, its judged completions and its summary.

    Args:
        folder (`str` or `Path`): the folder, which is created if it does not exist.
        settings (`dict`): everything that the completions depend on.
        overwrite (`bool`): whether to delete an evaluation that is in the folder and start over.

    Raises:
        `ValueError`: `overwrite` is false, and the folder holds an evaluation with different
            settings, or completions without `settings.json`.
    """

    def __init__(self, folder: str | Path, settings: dict[str, Any], overwrite: bool = False) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._path = self.folder / COMPLETIONS
        if overwrite:
            for name in (SUMMARY, COMPLETIONS, SETTINGS):
                (self.folder / name).unlink(missing_ok=True)
        refuse_other_settings(self.folder, settings)
        self._write(SETTINGS, json.dumps(settings, indent=2))

    def load(self, batch_sizes: list[int]) -> dict[int, list[SampleRecord]]:
        """Return the complete batches by their number, and remove incomplete batches from the file."""
        if not self._path.exists():
            return {}
        entries = list(run_files.lines(self._path))
        batches: dict[int, list[SampleRecord]] = {}
        for number, entry in enumerate(entries):
            try:
                record = read_judged(entry)
            except InvalidValueError as error:
                # The last line of an evaluation that was interrupted may be incomplete.
                if number < len(entries) - 1:
                    text = "%s, line %d is damaged, and its batch is evaluated again: %s."
                    logger.warning(text, self._path, number + 1, error)
                continue
            batches.setdefault(record.batch, []).append(record)
        sizes = dict(enumerate(batch_sizes))
        complete = {number: batch for number, batch in batches.items() if len(batch) == sizes.get(number)}
        is_cut = not self._path.read_bytes().endswith(b"\n")
        if is_cut or sum(map(len, complete.values())) != len(entries):
            self._write(COMPLETIONS, "".join(map(_format_lines, complete.values())))
        return complete

    def append(self, judged: Sequence[SampleRecord]) -> None:
        """Append judged completions to the file, and flush it to the disk."""
        with open(self._path, "a") as file:
            file.write(_format_lines(judged))
            file.flush()
            os.fsync(file.fileno())

    def write_summary(self, summary: dict[str, Any]) -> Path:
        """Write the summary, and return its path."""
        return self._write(SUMMARY, json.dumps(summary, indent=2))

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        write_text_whole(path, text)
        return path


def refuse_other_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise `ValueError` if `folder` holds an evaluation with other settings, or completions without settings."""
    path = folder / SETTINGS
    if not path.exists() and (folder / COMPLETIONS).exists():
        raise InvalidValueError(
            f"{folder} holds completions, but {SETTINGS}, with what they depend on, is missing. "
            "Give another folder, or --overwrite."
        )
    written = json.loads(json.dumps(settings))
    saved = flatten_settings(read_mapping(path) if path.exists() else written)
    current = flatten_settings(written)
    differences = "; ".join(
        f"{key}: {saved.get(key)!r} there, {current.get(key)!r} here"
        for key in sorted(saved.keys() | current.keys())
        if saved.get(key) != current.get(key)
    )
    if differences:
        raise InvalidValueError(
            f"{folder} holds an evaluation with other settings ({differences}). "
            "Give another folder, the same settings, or --overwrite."
        )


def _format_lines(judged: Sequence[SampleRecord]) -> str:
    return "".join(json.dumps(record._asdict()) + "\n" for record in judged)


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as one flat mapping with dotted names, such as `{"sampling.top_p": 0.7}`."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= flatten_settings(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
