"""The published runs of protocol 3, in one compressed file with a line of JSON for each run.

    {"file": "long/dial-0.65-start41.json", "record": {...}}

`xzcat experiments/results/dial.jsonl.xz | head -1` shows a line. Runs that are not packed yet are
files in a folder.
"""

import json
import lzma
from pathlib import Path

from experiments.lab.runs import ROOT

FILE = ROOT / "experiments/results/dial.jsonl.xz"


def pack(folder: Path, file: Path = FILE) -> None:
    """Write all published runs of a folder to one file."""
    lines = [
        json.dumps({"file": str(path.relative_to(folder)), "record": json.loads(path.read_text())}, ensure_ascii=False)
        for path in sorted(folder.rglob("*.json"))
    ]
    file.write_bytes(lzma.compress("".join(line + "\n" for line in lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def unpack(folder: Path, file: Path = FILE) -> Path:
    """Write each run of the published file to a file of its own in `folder`, and return `folder`."""
    for line in lzma.decompress(file.read_bytes()).decode().splitlines():
        entry = json.loads(line)
        path = folder / entry["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(entry["record"], ensure_ascii=False))
    return folder
