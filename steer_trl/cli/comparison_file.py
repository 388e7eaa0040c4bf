"""The file that `steer-trl compare --json` writes: both sides, an entry for each difference; no input is lost."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.system import write_whole


def output_complaints(path: Path | None, inputs: Sequence[str]) -> list[str]:
    """Complain about a file for the differences that is compared itself, or that is there and holds something else."""
    if path is None:
        return []
    if path.is_dir():
        return [f"json={str(path)!r} is a folder. Give a file, such as {str(path / 'comparison.json')!r}."]
    places = [path.resolve(), *path.resolve().parents]
    complaints = [
        f"json={str(path)!r} must not be written onto or into {one!r}, which is compared. Give another file."
        for one in inputs
        if Path(one).resolve() in places
    ]
    if not complaints and os.path.lexists(path) and not _is_comparison(path):
        complaints.append(f"json={str(path)!r} is there and is no comparison; it would be lost. Give another file.")
    return complaints


def _is_comparison(path: Path) -> bool:
    return path.is_file() and {"a", "b"} <= (runlog.loads(path.read_bytes()) or {}).keys()


def write_comparisons(path: Path, sides: tuple[list[str], list[str]], entries: list[dict[str, Any]]) -> None:
    """Write the `entries` on both `sides`, which are named by their folders."""
    text = json.dumps({"a": sides[0], "b": sides[1], "comparisons": entries}, indent=1)
    write_output(path, lambda partial: partial.write_text(text + "\n"))


def write_output(path: Path, save: Callable[[Path], Any]) -> None:
    """Write a file, and its folder if there is none, and state that on the terminal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save)
    print(f"Wrote {path}")  # noqa: T201
