"""Writes the files of `steer-trl compare`, and refuses to overwrite its input or other files."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.system import write_whole


def output_complaints(outputs: Mapping[str, Path | None], inputs: Sequence[str]) -> list[str]:
    """Complain about outputs, by their flags, that would overwrite an input or an unrelated JSON file."""
    complaints = []
    for name, path in outputs.items():
        if path is None:
            continue
        places = [path.resolve(), *path.resolve().parents]
        if path.is_dir():
            complaints.append(f"{name}={str(path)!r} is a folder. Give a file.")
        elif onto := [one for one in inputs if Path(one).resolve() in places]:
            complaints.append(
                f"{name}={str(path)!r} must not be written onto or into {onto[0]!r}, which is compared. Give another "
                "file."
            )
        elif name == "json" and os.path.lexists(path) and not _is_comparison(path):
            complaints.append(
                f"json={str(path)!r} exists and is not a comparison; it would be lost. Give another file."
            )
    return complaints


def _is_comparison(path: Path) -> bool:
    return path.is_file() and {"a", "b"} <= (runlog.loads(path.read_bytes()) or {}).keys()


def write_comparisons(path: Path, sides: tuple[list[str], list[str]], entries: list[dict[str, Any]]) -> None:
    """Write the folders of both sides and the `entries` as JSON."""
    text = json.dumps({"a": sides[0], "b": sides[1], "comparisons": entries}, indent=1)
    write_output(path, lambda partial: partial.write_text(text + "\n"))


def write_output(path: Path, save: Callable[[Path], Any]) -> None:
    """Write a file, make its folder if necessary, and print its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save)
    print(f"Wrote {path}")  # noqa: T201
