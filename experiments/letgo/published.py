"""The published files of protocol 4: one for each start and run, with a line of JSON for each model, compressed.

    experiments/results/letgo/block1-start71-run1.jsonl.xz

The first line is the start model. `xzcat FILE | python -m json.tool --json-lines` shows a file.
"""

import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.lab.runs import ROOT

FOLDER = ROOT / "experiments/results/letgo"
SUFFIX = ".jsonl.xz"
Record = dict[str, Any]


def write_unit(folder: Path, unit: str, paths: Iterable[Path]) -> None:
    """Write the records at `paths` to the file of a unit, which is never left half written."""
    text = "".join(path.read_text().strip() + "\n" for path in paths)
    packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{unit}{SUFFIX}"
    if path.exists() and path.read_bytes() == packed:
        return
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(packed)
    part.replace(path)


def read_unit(folder: Path, unit: str) -> dict[str, Record]:
    """Return the records of a unit by arm, or an empty dict if it is not published."""
    path = folder / f"{unit}{SUFFIX}"
    if not path.exists():
        return {}
    records = [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]
    return {record["arm"]: record for record in records}


def units(folder: Path) -> list[str]:
    """Return the names of the published units."""
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))
