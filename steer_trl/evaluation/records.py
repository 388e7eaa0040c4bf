"""Every completion and its verdict, in a JSONL file from which an interrupted evaluation is resumed.

A batch is written at once when it is judged, so a file holds whole batches, and perhaps one torn at the end, which is
dropped. What the completions depend on is in `settings.json` beside it; a folder with other settings is an error.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steer_trl.exceptions import InvalidValueError
from steer_trl.system import write_whole

SETTINGS, COMPLETIONS, SUMMARY = "settings.json", "completions.jsonl", "summary.json"


class Records:
    """The folder of one evaluation.

    Args:
        folder (`str` or `Path`): made if it is not there.
        settings (`dict`): all that the completions depend on.
        overwrite (`bool`): start over in a folder that holds an evaluation.

    Raises:
        `ValueError`: the folder holds an evaluation with other settings, and `overwrite` is off.
    """

    def __init__(self, folder: str | Path, settings: dict[str, Any], overwrite: bool = False) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._path = self.folder / COMPLETIONS
        settings = json.loads(json.dumps(settings))
        if overwrite:
            for name in (SUMMARY, COMPLETIONS, SETTINGS):
                (self.folder / name).unlink(missing_ok=True)
        self._refuse_other(settings)
        self._write(SETTINGS, json.dumps(settings, indent=2))

    def load(self, batch_sizes: list[int]) -> dict[int, list[dict[str, Any]]]:
        """Return the complete batches by number, and drop what is left of a torn one from the file."""
        if not self._path.exists():
            return {}
        lines = self._path.read_text().splitlines(keepends=True)
        entries = [json.loads(line) for line in lines if line.endswith("}\n")]
        batches: dict[int, list[dict[str, Any]]] = {}
        for entry in entries:
            batches.setdefault(entry["batch"], []).append(entry)
        batches = {number: batch for number, batch in batches.items() if len(batch) == batch_sizes[number]}
        if sum(map(len, batches.values())) != len(lines):
            kept = [json.dumps(entry) + "\n" for batch in batches.values() for entry in batch]
            self._write(COMPLETIONS, "".join(kept))
        return batches

    def append(self, entries: list[dict[str, Any]]) -> None:
        """Write judged completions to the disk, not only to its cache."""
        with open(self._path, "a") as file:
            file.write("".join(json.dumps(entry) + "\n" for entry in entries))
            file.flush()
            os.fsync(file.fileno())

    def write_summary(self, summary: dict[str, Any]) -> Path:
        """Write the summary; return its path."""
        return self._write(SUMMARY, json.dumps(summary, indent=2))

    def _refuse_other(self, settings: dict[str, Any]) -> None:
        path = self.folder / SETTINGS
        if not path.exists() and self._path.exists():
            raise InvalidValueError(
                f"{self.folder} holds completions, but {SETTINGS}, with what they depend on, is missing. "
                "Give another folder, or --overwrite."
            )
        there, here = flat(json.loads(path.read_text()) if path.exists() else settings), flat(settings)
        differences = "; ".join(
            f"{key}: {there.get(key)!r} there, {here.get(key)!r} here"
            for key in sorted(there.keys() | here.keys())
            if there.get(key) != here.get(key)
        )
        if differences:
            raise InvalidValueError(
                f"{self.folder} holds an evaluation with other settings ({differences}). "
                "Give another folder, the same settings, or --overwrite."
            )

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        write_whole(path, lambda partial: partial.write_text(text))
        return path


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings without mappings inside of them: `{"sampling.top_p": 0.7}`."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found
