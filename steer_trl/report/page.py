"""Writes the page as one HTML file that contains its styles, scripts and data. The page makes no requests.

The contents of a run's folder are treated as data, never as code. They are in one block of JSON that has no `<`, and
the scripts insert them as text only. A content security policy in the page's head forbids any other script and all
requests.
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
from steer_trl.support.system import write_text_whole
from steer_trl.support.validation import refuse

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
    """Return the HTML of the page about `runs`, which a notebook or a tracker can show.

    `runs` are folders, as in [`write`].
    """
    data = json.dumps(page_data(find_runs(runs)), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # JSON strings may contain lone surrogates, which UTF-8 cannot encode.
    data = data.encode(errors="replace").decode()
    for letter in "<>&":
        data = data.replace(letter, f"\\u{ord(letter):04x}")
    # Each copy of uPlot must carry its licence.
    script = "\n".join([f"/*\n{_read_part(LICENCE)}*/", *map(_read_part, SCRIPTS)])
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {"STYLE": "\n".join(map(_read_part, STYLES)), "SCRIPT": script, "DATA": data, "HASH": script_hash}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read_part("page.html"))


def write(runs: Sequence[str | Path], path: str | Path = "report.html") -> Path:
    """Write the page about `runs` to `path` and return the path. Missing folders are created.

    Args:
        runs (`Sequence[str | Path]`): the `output_dir` of each run, or folders that hold such folders.
        path (`str` or `Path`): the file to write. An older report is replaced.

    Raises:
        `NoRun`: a folder has no log.
        `ValueError`: `path` is a folder, or a file that is not a report. The file is left unchanged.
    """
    refuse(_find_path_complaints(path), "steer_trl.report.write")
    page = html(runs)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_whole(path, page)
    return path


def _find_path_complaints(path: str | Path) -> list[str]:
    """Return a complaint if `path` is a folder, or a file that is not a report and would be lost."""
    if str(path).endswith(("/", os.sep)) or Path(path).is_dir():
        return [f"{path} is a folder. Give a file, such as {Path(path) / 'report.html'}."]
    is_page = Path(path).is_file() and Path(path).read_bytes().startswith(DOCTYPE)
    if os.path.lexists(path) and not is_page:
        return [f"{path} exists and is not a report, so it would be lost. Give another file, such as report.html."]
    return []


def _read_part(name: str) -> str:
    return resources.files("steer_trl.report").joinpath(name).read_text(encoding="utf-8")
