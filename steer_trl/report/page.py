"""The page as one file: its skeleton with the style, the scripts and the data put in. It asks nobody for anything.

What a run folder says is data, never part of the page's language: it stands in one block of JSON without a `<`, the
scripts put it into the page as text only, and a policy in the page's head lets no other script run and no request out.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from steer_trl.report.data import page_data
from steer_trl.report.read import find_runs
from steer_trl.system import write_whole
from steer_trl.validation import refuse

DOCTYPE = b"<!DOCTYPE html>"
STYLES = ("vendor/uPlot.min.css", "page.css")
LICENCE = "vendor/uPlot.LICENSE"
SCRIPTS = (
    "vendor/uPlot.iife.min.js",
    "lines.js",
    "charts.js",
    "completions.js",
    "tokens.js",
    "runs.js",
    "comparison.js",
    "frontier.js",
    "page.js",
)


def html(runs: Sequence[str | Path]) -> str:
    """Return the page about `runs`, as [`write`] takes them; a notebook or a tracker can show it."""
    data = json.dumps(page_data(find_runs(runs)), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    data = data.encode(errors="replace").decode()  # half a letter, which JSON can hold and UTF-8 cannot
    for letter in "<>&":
        data = data.replace(letter, f"\\u{ord(letter):04x}")
    script = "\n".join([f"/*\n{_own(LICENCE)}*/", *map(_own, SCRIPTS)])  # each copy of uPlot carries its notice
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {"STYLE": "\n".join(map(_own, STYLES)), "SCRIPT": script, "DATA": data, "HASH": hashed}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _own("page.html"))


def write(runs: Sequence[str | Path], path: str | Path = "report.html") -> Path:
    """Write the page about `runs` to `path` and return it; folders on the way are made.

    `runs` are folders, as `output_dir` named them, or folders of such folders; [`NoRun`] where one has no log.
    `ValueError`: `path` is a folder, or a file that is no page; nothing is written then.
    """
    refuse(_complaints(path), "steer_trl.report.write")
    page, path = html(runs), Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_text(page, encoding="utf-8"))
    return path


def _complaints(path: str | Path) -> list[str]:
    """Why no page can be written to `path`: what is there is not a page's, and might be the run's own."""
    if str(path).endswith(("/", os.sep)) or Path(path).is_dir():
        return [f"{path} is a folder. Give another file, such as {Path(path) / 'report.html'}."]
    if os.path.lexists(path) and not (Path(path).is_file() and Path(path).read_bytes().startswith(DOCTYPE)):
        return [f"{path} is there and is no report; it would be lost. Give another file, such as report.html."]
    return []


def _own(name: str) -> str:
    return resources.files("steer_trl.report").joinpath(name).read_text(encoding="utf-8")
