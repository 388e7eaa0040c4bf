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
from steer_trl.system import open_regular

BUDGET = 160_000  # tokens in a page, some 40 bytes each
LONGEST = 800  # tokens of a completion
LONGEST_LINE = 16 << 20  # bytes
LONGEST_TEXT = 120  # characters of a token
MOST_COMPLETIONS, MOST_GROUPS = 64, 32  # in a group, in a look
MOST_REWARDS = 20
SURE = 3  # looks that are cut rather than left out
BYTES_PER_TOKEN = 500  # that are read at most for each that is shown; 130 are usual
MOST_UNREAD = 1000  # lines of a file that are no completion, before it is given up
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
        size (`int`), read (`int`): what they take of the page, in tokens; bytes that were read.
        unread (`int`): lines that are no completion.
        is_cut (`bool`), is_over (`bool`): whether completions are left out; whether for want of room.
    """

    groups: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    read: int = 0
    unread: int = 0
    is_cut: bool = False
    is_over: bool = False


def looks_of(run: Run, budget: int) -> list[dict[str, Any]]:
    """Return the looks of `run` that fit into `budget` tokens, by step; notes in `run` say what does not.

    The first, the last and the middle one share the budget where they are long; more are taken while they fit whole.
    """
    found: list[dict[str, Any]] = []
    unreadable = 0
    room, most = budget, max(budget * BYTES_PER_TOKEN, SURE * LONGEST_LINE)
    for step, path in _spread(run.looks):
        sharing = max(1, min(SURE, len(run.looks)) - len(found))
        look = _read(path, room // sharing, most // sharing)
        if look.unread and look.groups:
            run.notes.append(f"{look.unread} line(s) of {path.name} could not be read.")
        if not look.groups and not look.is_over:
            run.notes.append(f"{path.name} could not be read.")
            unreadable += 1
        if look.is_over and len(found) >= SURE:
            break
        room, most = room - look.size, most - look.read
        if look.groups:
            found.append({"step": step, "groups": look.groups, "more": look.is_cut})
        if room <= 0 or most <= 0:
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


def _read(path: Path, room: int, most: int) -> Look:
    """Read the completions of a file that fit into `room` tokens, but no more than `most` bytes."""
    look = Look()
    groups: dict[int, dict[str, Any]] = {}
    try:
        file = open_regular(path)
    except OSError:
        return look
    with file:
        for line in runlog.lines_of(file, LONGEST_LINE, most):
            if look.unread >= MOST_UNREAD:
                break
            completion = None if line is None else _completion(line, LONGEST if groups else min(LONGEST, room))
            if line is None or completion is None:
                look.unread += 1
                continue
            number = line.get("group")
            number = number if isinstance(number, int) else 0
            prompt = _text(line.get("prompt"), 4100)
            size = len(completion["texts"]) + (0 if number in groups else len(prompt) // 40)
            if groups and look.size + size > room:
                look.is_cut = look.is_over = True
                break
            group = groups.setdefault(number, {"prompt": prompt, "completions": []})
            if len(groups) > MOST_GROUPS or len(group["completions"]) >= MOST_COMPLETIONS:
                look.is_cut = True
                break
            group["completions"].append(completion)
            look.size += max(size, 8)
        look.read = file.tell()
        look.is_over |= look.read >= most
    look.groups = [groups[number] for number in sorted(groups) if groups[number]["completions"]]
    look.is_cut |= look.is_over
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
    rewards = list(rewards.items()) if isinstance(rewards, dict) else []
    return {
        "texts": [_text(text, LONGEST_TEXT) for text in texts[:count]],
        "tool": [i for i, is_tool in enumerate(tool[:count]) if is_tool is True] if isinstance(tool, list) else [],
        "tokens": total if is_number(total) and isinstance(total, int) else len(texts),
        "cut": line.get("is_truncated") is True,
        "step": runlog.step_of(line),
        "reward": _number(line.get("reward")),
        "rewards": {_text(name, 60): _number(value) for name, value in rewards[:MOST_REWARDS]},
        "raw": next((x for x in _numbers(line.get("advantages"), count) if x is not None), None),
        "exact": line.get("entropy_change_source") == "exact",
        **{name: values for name, values in columns.items() if any(value is not None for value in values)},
    }


def _numbers(values: Any, count: int) -> list[float | None]:
    values = values if isinstance(values, list) else []
    return [_number(values[i]) if i < len(values) else None for i in range(count)]


def _number(value: Any) -> float | None:
    return float(f"{value:.3g}") if is_number(value) else None


def _text(value: Any, longest: int) -> str:
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text if len(text) <= longest else f"{text[:longest]} [...]"
