"""Some looks at single tokens, as the page shows them: spread over the run, and each within a size.

A completion becomes its texts and a list of numbers for each of `COLUMNS`, with three digits. What is left out is
said.
"""

from pathlib import Path
from typing import Any

import numpy as np

from steer_trl import runlog
from steer_trl.report.read import Run, is_number

LOOKS, FEWEST = 20, 2  # of a page, shared by its runs; of a run
ROOM = 8_000  # tokens of a look, some 40 bytes each
LONGEST = 800  # tokens of a completion
COLUMNS = {
    "weight": "weights",
    "surprisal": "surprisals",
    "entropy": "entropy",
    "advantage": "shaped_advantages",
    "change": "entropy_changes",
}
"""What the page colours tokens by, and the column of the file."""


def looks_of(run: Run, runs: int) -> list[dict[str, Any]]:
    """Return some looks of a `run` of `runs` in one page, by step; notes in it say what is not shown."""
    count = min(max(FEWEST, LOOKS // runs), len(run.looks))
    places = np.linspace(0, len(run.looks) - 1, count).round().astype(int)
    found = []
    for step, path in (run.looks[place] for place in places):
        groups, is_cut, unread = _read(path)
        if unread:
            run.notes.append(f"{unread} line(s) of {path.name} could not be read.")
        if groups:
            found.append({"step": step, "groups": groups, "more": is_cut})
    if count < len(run.looks):
        run.notes.append(f"{count} of {len(run.looks)} looks at tokens are shown, spread over the run.")
    return found


def _read(path: Path) -> tuple[list[dict[str, Any]], bool, int]:
    """The groups of a file, each a prompt with completions; whether some have no room; lines that are none."""
    groups: dict[Any, dict[str, Any]] = {}
    size = unread = 0
    for line in runlog.lines(path):
        completion = _completion(line or {})
        if line is None or completion is None:
            unread += 1
            continue
        size += len(completion["texts"])
        if size > ROOM and groups:
            return list(groups.values()), True, unread
        group = groups.setdefault(str(line.get("group")), {"prompt": str(line.get("prompt", "")), "completions": []})
        group["completions"].append(completion)
    return list(groups.values()), False, unread


def _completion(line: dict[str, Any]) -> dict[str, Any] | None:
    texts, ids = line.get("texts"), line.get("token_ids")
    texts = texts if isinstance(texts, list) else ids  # prime-rl's has no texts
    if not isinstance(texts, list):
        return None
    count = min(len(texts), LONGEST)
    columns = {name: _numbers(line.get(column), count) for name, column in COLUMNS.items()}
    tool, rewards = line.get("is_tool"), line.get("rewards")
    return {
        "texts": ["" if text is None else str(text) for text in texts[:count]],
        "tool": [i for i, is_tool in enumerate(tool[:count]) if is_tool is True] if isinstance(tool, list) else [],
        "tokens": line["num_tokens"] if is_number(line.get("num_tokens")) else len(texts),
        "cut": line.get("is_truncated") is True,
        "reward": _number(line.get("reward")),
        "rewards": {name: _number(value) for name, value in rewards.items()} if isinstance(rewards, dict) else {},
        "raw": next((x for x in _numbers(line.get("advantages"), count) if x is not None), None),
        "exact": line.get("entropy_change_source") == "exact",
        **{name: values for name, values in columns.items() if any(value is not None for value in values)},
    }


def _numbers(values: Any, count: int) -> list[float | None]:
    values = values if isinstance(values, list) else []
    return [_number(values[i]) if i < len(values) else None for i in range(count)]


def _number(value: Any) -> float | None:
    return float(f"{value:.3g}") if is_number(value) else None
