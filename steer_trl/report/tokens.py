"""Some looks at single tokens, as the page shows them: whole groups, spread over the run, within a size.

A completion becomes its texts and a list of numbers for each of `COLUMNS`, with three digits. What is left out is
said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.report.fields import is_number
from steer_trl.report.read import Run

BUDGET = 160_000  # tokens in a page, some 40 bytes each
LONGEST = 800  # tokens of a completion
SURE = 3  # looks that are cut rather than left out
COLUMNS = {
    "weight": "weights",
    "surprisal": "surprisals",
    "entropy": "entropy",
    "advantage": "shaped_advantages",
    "change": "entropy_changes",
}
"""What the page colours tokens by, and the column of the file."""


@dataclass
class Look:
    """What is shown of one file.

    Attributes:
        groups (`list[dict]`): the groups, each a prompt with completions.
        size (`int`): what they take of the page, in tokens.
        unread (`int`): lines that are no completion.
        is_cut (`bool`): whether completions are left out for want of room.
    """

    groups: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    unread: int = 0
    is_cut: bool = False


def looks_of(run: Run, budget: int) -> list[dict[str, Any]]:
    """Return the looks of `run` that fit into `budget` tokens, by step; notes in `run` say what does not.

    The first, the last and the middle one share the budget where they are long; more are taken while they fit whole.
    """
    found: list[dict[str, Any]] = []
    unreadable = 0
    room = budget
    for step, path in _spread(run.looks):
        sharing = max(1, min(SURE, len(run.looks)) - len(found))
        look = _read(path, room // sharing)
        if look.unread and look.groups:
            run.notes.append(f"{look.unread} line(s) of {path.name} could not be read.")
        if not look.groups:
            run.notes.append(f"{path.name} could not be read.")
            unreadable += 1
        if look.is_cut and len(found) >= SURE:
            break
        room -= look.size
        if look.groups:
            found.append({"step": step, "groups": look.groups, "more": look.is_cut})
        if room <= 0:
            break
    if len(found) + unreadable < len(run.looks):
        run.notes.append(f"{len(found)} of {len(run.looks)} looks at tokens are shown, spread over the run.")
    if cut := sum(look["more"] for look in found):
        run.notes.append(f"Only the first completions of {cut} look(s) fit into the page.")
    return sorted(found, key=lambda look: look["step"])


def _spread(looks: Sequence[tuple[int, Path]]) -> Iterator[tuple[int, Path]]:
    """First and last, then the middle, then the quarters: however many are taken, they span the run."""
    seen: set[int] = set()
    parts = 1
    while len(seen) < len(looks):
        for part in range(parts + 1):
            place = round(part * (len(looks) - 1) / parts)
            if place not in seen:
                seen.add(place)
                yield looks[place]
        parts *= 2


def _read(path: Path, room: int) -> Look:
    """Read the completions of a file that fit into `room` tokens."""
    look = Look()
    groups: dict[int, dict[str, Any]] = {}
    for line in runlog.lines(path):
        completion = None if line is None else _completion(line, LONGEST if groups else min(LONGEST, room))
        if line is None or completion is None:
            look.unread += 1
            continue
        number = line.get("group")
        number = number if isinstance(number, int) else 0
        prompt = str(line.get("prompt", ""))
        size = len(completion["texts"]) + (0 if number in groups else len(prompt) // 40)
        if groups and look.size + size > room:
            look.is_cut = True
            break
        groups.setdefault(number, {"prompt": prompt, "completions": []})["completions"].append(completion)
        look.size += max(size, 8)
    look.groups = [groups[number] for number in sorted(groups)]
    return look


def _completion(line: dict[str, Any], longest: int) -> dict[str, Any] | None:
    texts, ids = line.get("texts"), line.get("token_ids")
    texts = texts if isinstance(texts, list) else ids  # prime-rl's has no texts
    if not isinstance(texts, list):
        return None
    count = min(len(texts), longest)
    columns = {name: _numbers(line.get(column), count) for name, column in COLUMNS.items()}
    tool = line.get("is_tool")
    total, rewards = line.get("num_tokens"), line.get("rewards")
    rewards = rewards if isinstance(rewards, dict) else {}
    return {
        "texts": ["" if text is None else str(text) for text in texts[:count]],
        "tool": [i for i, is_tool in enumerate(tool[:count]) if is_tool is True] if isinstance(tool, list) else [],
        "tokens": total if is_number(total) and isinstance(total, int) else len(texts),
        "cut": line.get("is_truncated") is True,
        "step": runlog.step_of(line),
        "reward": _number(line.get("reward")),
        "rewards": {name: _number(value) for name, value in rewards.items()},
        "raw": next((x for x in _numbers(line.get("advantages"), count) if x is not None), None),
        "exact": line.get("entropy_change_source") == "exact",
        **{name: values for name, values in columns.items() if any(value is not None for value in values)},
    }


def _numbers(values: Any, count: int) -> list[float | None]:
    values = values if isinstance(values, list) else []
    return [_number(values[i]) if i < len(values) else None for i in range(count)]


def _number(value: Any) -> float | None:
    return float(f"{value:.3g}") if is_number(value) else None
