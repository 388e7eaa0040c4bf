"""Selects the token records that a page shows.

The steps are spread over the run, and each step is cut to a maximum number of tokens. For each completion, the page
holds the tokens as strings and, for each quantity in `COLUMNS`, a list of numbers with three significant digits. The
page states what is left out.
"""

from pathlib import Path
from typing import Any

import numpy as np

from steer_trl.monitoring import run_files
from steer_trl.report.read import Run, is_finite_number, shorten

MOST_STEPS = 20
"""Maximum number of steps whose tokens a page shows, added up over its runs."""
FEWEST_STEPS = 2
"""Minimum number of steps that are shown for each run, even if the page has many runs."""
ROOM = 8_000
"""Maximum number of tokens that are shown for a step. A token takes about 40 bytes of the page."""
LONGEST = 800
"""Maximum number of tokens that are shown for a completion."""
LONGEST_TEXT = 100
"""Maximum number of characters that are shown for a token. In a file from another program, a token may be huge."""
LONGEST_PROMPT = 8_000
"""Maximum number of characters that are shown for a prompt."""
COLUMNS = {
    "weight": "weights",
    "surprisal": "surprisals",
    "entropy": "entropy",
    "advantage": "shaped_advantages",
    "change": "entropy_changes",
}
"""Maps the quantities by which the page colours tokens to their fields in a token record."""


def select_token_steps(run: Run, num_runs: int) -> list[dict[str, Any]]:
    """Return the tokens of some steps of `run`, for a page with `num_runs` runs.

    Notes are added to the run about steps that are left out and lines that could not be read.
    """
    count = min(max(FEWEST_STEPS, MOST_STEPS // num_runs), len(run.token_steps))
    places = np.linspace(0, len(run.token_steps) - 1, count).round().astype(int)
    steps = []
    for step, path in (run.token_steps[place] for place in places):
        groups, is_cut, unread = _read_groups(path)
        if unread:
            run.notes.append(f"{unread} line(s) of {path.name} could not be read.")
        if groups:
            steps.append({"step": step, "groups": groups, "more": is_cut})
    if count < len(run.token_steps):
        run.notes.append(f"{count} of {len(run.token_steps)} steps with tokens are shown, spread over the run.")
    return steps


def _read_groups(path: Path) -> tuple[list[dict[str, Any]], bool, int]:
    """Return the groups of a file, whether completions were left out, and the number of unreadable lines."""
    groups: dict[str, dict[str, Any]] = {}
    size = 0
    unread = 0
    for line in run_files.lines(path):
        try:
            completion = _read_completion(line or {})
        except (LookupError, TypeError, ValueError, AttributeError):
            unread += 1
            continue
        size += len(completion["texts"])
        if size > ROOM and groups:
            return list(groups.values()), True, unread
        group = groups.setdefault(completion["group"], {"prompt": completion["prompt"], "completions": []})
        group["completions"].append(completion)
    return list(groups.values()), False, unread


def _read_completion(line: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a token record that the page shows.

    Raises an error if the record has no tokens or is malformed.
    """
    texts = line["texts"] if "texts" in line else line["token_ids"]
    shown_texts = texts[:LONGEST]
    numbers = {}
    for name, key in COLUMNS.items():
        values = [_round(value) for value in line.get(key, ())[:LONGEST]]
        if any(value is not None for value in values):
            numbers[name] = values
    raw = [_round(value) for value in line.get("advantages", ())]
    return {
        "group": str(line.get("group")),
        "prompt": shorten(str(line.get("prompt", "")), LONGEST_PROMPT),
        "texts": ["" if text is None else shorten(str(text), LONGEST_TEXT) for text in shown_texts],
        "tool": [i for i, is_tool in enumerate(line.get("is_tool", ())) if is_tool is True],
        "tokens": line.get("num_tokens", len(texts)),
        "cut": line.get("is_truncated") is True,
        "reward": _round(line.get("reward")),
        "rewards": {name: _round(value) for name, value in line.get("rewards", {}).items()},
        "raw": next((value for value in raw if value is not None), None),
        "exact": line.get("entropy_change_source") == "exact",
        **numbers,
    }


def _round(value: Any) -> float | None:
    return float(f"{value:.3g}") if is_finite_number(value) else None
