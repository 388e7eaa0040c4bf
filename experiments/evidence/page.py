"""Write docs/evidence/results.md of the published runs: what they end with, and how they differ from the baseline.

    python experiments/evidence/page.py

Every difference is one that `steer-trl compare --paired` prints of the same files.
"""

import json
import sys
from itertools import chain, groupby
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from controls import controls
from courses import last_quarter, stopped_early
from pairs import (
    BASELINE,
    JUDGED,
    LAST,
    PRIMARY,
    PROTOCOL,
    SECONDARY,
    Arms,
    differences_of,
    entropy_at_end,
    load,
    mean_of,
    pairs_of,
)
from picture import picture
from temperatures import temperatures

from steer_trl.evaluation.summary import markdown_table

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs/evidence"
PAGE, INTRODUCTION = EVIDENCE / "results.md", Path(__file__).with_name("introduction.md")

TASKS = ("countdown", "ordered_palindrome", "palindrome", "shortest_path", "words")
PARTS = {
    "hands": "Every strength, in the real trainer",
    "statistics": "Which tokens' entropy is held",
}
"""Subfolders of a task, and what their runs answer."""


def main() -> None:
    """Write the page, one part for each task."""
    parts = [INTRODUCTION.read_text().strip()]
    for folder in (EVIDENCE / task for task in TASKS):
        published = load(folder)
        arms = {arm: runs for arm, runs in published.items() if arm in PROTOCOL}
        tables = [ends(arms), differences(arms), by_start(arms), held(arms)]
        trained = {arm: [run.record for run in runs.values()] for arm, runs in arms.items() if arm != "start"}
        followed = {arm: records for arm, records in trained.items() if all(map(_is_followed, records))}
        tables += [last_quarter(followed, PRIMARY), stopped_early(followed, PRIMARY), temperatures(folder, BASELINE)]
        tables.append(controls(published))
        if followed:
            picture(followed, PRIMARY, EVIDENCE / f"{folder.name}.png")
            tables.insert(0, f"![Entropy, accuracy and pass@16 over generated tokens]({folder.name}.png)")
        tables += [of_part(folder / part, title) for part, title in PARTS.items()]
        parts += [f"## {folder.name}", *filter(None, [*tables, choosing(folder / "choosing")])]
    PAGE.write_text("\n\n".join(parts) + "\n")
    sys.stdout.write(f"Wrote {PAGE}\n")


def _is_followed(record: dict[str, Any]) -> bool:
    """Whether a run was evaluated on the way, not only at its end."""
    return all(len(record["validation"][measure]) > 2 for measure in PRIMARY.values())


def of_part(folder: Path, title: str) -> str:
    """The runs of another question: how their levels were held, and what they end with."""
    arms = load(folder)
    return "\n\n".join([f"### {title}", held(arms), ends(arms)]).replace("\n### ", "\n#### ") if arms else ""


def ends(arms: Arms) -> str:
    """What every arm ends with, mean over its runs."""
    rows = []
    for arm, runs in arms.items():
        row = [arm, str(len(runs)), *[""] * 3]
        if arm != "start":
            rollouts = [run.record["rollouts"] for run in runs.values()]
            entropies = map(entropy_at_end, runs.values())
            row[2:] = [f"{mean(run.record['generated_tokens'] for run in runs.values()) / 1e6:.2f}"]
            row += [f"{mean(rollout['step'][-1] for rollout in rollouts):.0f}", f"{mean(entropies):.3f}"]
        rows.append([*row, *(f"{mean_of(runs.values(), measure):.3f}" for measure in (PRIMARY | SECONDARY).values())])
    if not rows:
        return "No run that counts has ended yet."
    text = f"### Where the runs end\n\nEntropy in nats per token, of the groups trained on, last {LAST} rollouts.\n\n"
    return text + markdown_table(["", "runs", "M tokens", "steps", "entropy", *PRIMARY, *SECONDARY], rows)


def differences(arms: Arms) -> str:
    """Every arm against the baseline: the interval over problems and runs, that over starts, and Holm's verdict."""
    found = {
        (arm, name): one
        for arm in arms
        if arm not in ("start", BASELINE) and len(pairs_of(arms, arm)) > 1
        for name, one in differences_of(arms, arm).items()
    }
    primary = {key: one.p for key, one in found.items() if key[0] in JUDGED and key[1] in PRIMARY}
    starts = {start for runs in arms.values() for start, _ in runs}
    corrected = holm(primary) if len(starts) > 1 else {}  # the protocol judges several starts; one is secondary
    rows = [
        [
            *key,
            str(one.seeds[0]),
            f"{one.difference:+.3f}",
            f"{one.low:+.3f} to {one.high:+.3f}",
            f"{one.over_starts[0]:+.3f} to {one.over_starts[1]:+.3f}" if one.over_starts else "",
            _verdict(corrected.get(key)),
        ]
        for key, one in found.items()
    ]
    head = ["arm", "measure", "pairs", "difference", "95 %, problems and runs", "95 %, starts alone", "Holm"]
    return f"### Against {BASELINE}\n\n" + markdown_table(head, rows) if rows else ""


def _verdict(p: float | None) -> str:
    return "" if p is None else f"**found** (p {p:.4f})" if p < 0.05 else f"no (p {p:.2f})"


def holm(values: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """p-values corrected by Holm's method: below 0.05, and all that are smaller, the difference is found."""
    largest, corrected = 0.0, {}
    for rank, (key, p) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(values) - rank) * p))
        corrected[key] = largest
    return corrected


def by_start(arms: Arms) -> str:
    """The mean difference of each start, of the primary measures."""
    rows = []
    for arm in [arm for arm in JUDGED if arm in arms]:
        for start, of_start in groupby(pairs_of(arms, arm), key=lambda pair: pair[0]):
            here = list(of_start)
            theirs, ours = ([arms[name][pair] for pair in here] for name in (BASELINE, arm))
            gained = [mean_of(ours, measure) - mean_of(theirs, measure) for measure in PRIMARY.values()]
            rows.append([arm, str(start), str(len(here)), *(f"{value:+.3f}" for value in gained)])
    return "### By start\n\n" + markdown_table(["arm", "start", "pairs", *PRIMARY], rows) if rows else ""


def held(arms: Arms) -> str:
    """How far the entropy is from a level that is held, from when it is reached, and where nothing could be done."""
    rows = []
    for arm, runs in arms.items():
        errors = [pair for run in runs.values() for pair in _errors(run.record)]
        acted = [abs(error) for error, strength in errors if error <= 0 or strength]
        if errors:
            distances = [abs(error) for error, _ in errors]
            shares = (f"{mean(x <= 0.1 for x in some):.0%}" for some in (distances, acted))
            means = (f"{mean(some):.1%}" for some in (distances, acted))
            idle = f"{1 - len(acted) / len(errors):.0%}"
            rows.append([arm, str(len(runs)), *chain(*zip(means, shares, strict=True)), idle])
    text = (
        "### How well the level was held\n\nOf the rollouts after the first that is at its level: all of them, and "
        "those where `hold_entropy` acts. Above the level\nat strength 0 nothing pushes the entropy down, also where "
        "the level falls faster than it.\n\n"
    )
    distance = ["mean distance", "within 10 %"]
    head = ["arm", "runs", *distance, *(f"where it acts: {name}" for name in distance), "above, at 0"]
    return text + markdown_table(head, rows) if rows else ""


def _errors(record: dict[str, Any]) -> list[tuple[float, float]]:
    """Relative distances from the moving level, and the strength, from the first rollout that is at or below it."""
    rollouts = record.get("rollouts", {})
    if "hold_entropy/target" not in rollouts:
        return []
    kept = "hold_entropy/entropy" if "hold_entropy/entropy" in rollouts else "rollout_entropy"
    columns = (rollouts[name] for name in (kept, "hold_entropy/target", "hold_entropy/strength"))
    found = [
        (entropy / target - 1, strength)
        for entropy, target, strength in zip(*columns, strict=True)
        if entropy is not None and target
    ]
    reached = next((i for i, (error, _) in enumerate(found) if error <= 0), len(found))
    return found[reached:]


def choosing(folder: Path) -> str:
    """What was tried before the runs that count, by the mean of the primary measures on the validation split."""
    rows = []
    for path in folder.glob("**/*.json"):
        record = json.loads(path.read_text())
        if record["arm"] != "start":
            values = [record["validation"][column][-1][1] for column in PRIMARY.values()]
            tokens = f"{record['generated_tokens'] / 1e6:.1f}"
            cells = [record["arm"], tokens, *(f"{value:.3f}" for value in values), f"{mean(values):.4f}"]
            rows.append((float(tokens), mean(values), cells))
    text = "### What is chosen by\n\nOne run each from start 20, on the validation split, best first.\n\n"
    cells = [row for *_, row in sorted(rows, reverse=True)]
    return text + markdown_table(["arm", "M tokens", *PRIMARY, "mean"], cells) if rows else ""


if __name__ == "__main__":
    main()
