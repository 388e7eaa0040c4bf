"""Some looks at single tokens, as the page shows them: whole groups, spread over the run, within a size.

A completion becomes its texts and a list of numbers for each of `COLUMNS`, with three digits. What is left out is
said.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.report.read import Run, is_number

BUDGET = 160_000  # tokens in a page, some 40 bytes each
LONGEST = 800  # tokens of a completion
LONGEST_LINE = 16 << 20  # bytes
LONGEST_TEXT = 120  # characters of a token
MOST_COMPLETIONS = 64  # in a group
COLUMNS = {
    "weight": "weights",
    "surprisal": "surprisals",
    "entropy": "entropy",
    "advantage": "shaped_advantages",
    "change": "entropy_changes",
}
"""What the page colours tokens by, and the column of the file."""


def looks_of(run: Run, budget: int) -> list[dict[str, Any]]:
    """Return the looks of `run` that fit into `budget` tokens, by step; notes in `run` say what does not."""
    found: list[dict[str, Any]] = []
    for step, path in _spread(run.looks):
        groups, left_out = _groups(path)
        size = sum(len(one["texts"]) for group in groups for one in group["completions"])
        if left_out:
            run.notes.append(f"{left_out} line(s) of {path.name} could not be read.")
        if size > budget:
            run.notes.append(f"{len(found)} of {len(run.looks)} looks at tokens are shown, spread over the run.")
            break
        budget -= size
        if groups:
            found.append({"step": step, "groups": groups})
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


def _groups(path: Path) -> tuple[list[dict[str, Any]], int]:
    groups: dict[Any, dict[str, Any]] = {}
    left_out = 0
    for line in runlog.lines(path, LONGEST_LINE):
        completion = None if line is None else _completion(line)
        if line is None or completion is None:
            left_out += 1
            continue
        number = line.get("group")
        number = number if isinstance(number, int) else 0
        prompt = line.get("prompt")
        group = groups.setdefault(number, {"prompt": _text(prompt, 4100), "completions": []})
        if len(group["completions"]) < MOST_COMPLETIONS:
            group["completions"].append(completion)
    return [groups[number] for number in sorted(groups)], left_out


def _completion(line: dict[str, Any]) -> dict[str, Any] | None:
    texts, ids = line.get("texts"), line.get("token_ids")
    texts = texts if isinstance(texts, list) else ids  # prime-rl's has no texts
    if not isinstance(texts, list):
        return None
    count = min(len(texts), LONGEST)
    columns = {name: _numbers(line.get(column), count) for name, column in COLUMNS.items()}
    tool = line.get("is_tool")
    total, rewards = line.get("num_tokens"), line.get("rewards")
    return {
        "texts": [_text(text, LONGEST_TEXT) for text in texts[:count]],
        "tool": [i for i, is_tool in enumerate(tool[:count]) if is_tool is True] if isinstance(tool, list) else [],
        "tokens": total if isinstance(total, int) else len(texts),
        "cut": line.get("is_truncated") is True,
        "step": runlog.step_of(line),
        "reward": _number(line.get("reward")),
        "rewards": {_text(n, 60): _number(r) for n, r in rewards.items()} if isinstance(rewards, dict) else {},
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
