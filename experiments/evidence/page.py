"""Writes experiments/results/results.md: the results of the published runs, and their differences from GRPO.

    python -m experiments.evidence.page

`steer-trl compare --paired` prints the same differences for these files.
"""

import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any, TypeVar

from experiments.evidence.controls import controls
from experiments.evidence.courses import last_quarter, stopped_as_accurate
from experiments.evidence.frontier import above_the_level, best, draw, with_start
from experiments.evidence.pairs import (
    BASELINE,
    JUDGED,
    PRIMARY,
    PROTOCOL,
    Arms,
    differences_of,
    entropy_at_end,
    load,
    mean_of,
    pairs_of,
)
from experiments.evidence.picture import picture
from experiments.lab.tables import markdown_table

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "experiments/results"
PAGE, TEXT = EVIDENCE / "results.md", Path(__file__).with_name("results.md.in")
PICTURE = ROOT / "docs/countdown.png"
Key = TypeVar("Key")
TASKS = ("palindrome", "ordered_palindrome", "shortest_path", "words")


def main() -> None:
    """Write the page and draw its pictures."""
    folder = EVIDENCE / "countdown"
    published = load(folder)
    arms = {arm: runs for arm, runs in published.items() if arm in PROTOCOL}
    trained = {arm: runs for arm, runs in arms.items() if arm != "start"}
    picture({arm: [run.record for run in runs.values()] for arm, runs in trained.items()}, PRIMARY, PICTURE)
    draw(arms, folder, EVIDENCE / "frontier.png")
    tables = {
        "ends": ends(trained),
        "differences": differences(arms),
        "frontier": best(arms, folder),
        "fallback": with_start(arms, folder),
        "above": above_the_level(published, folder),
        "controls": controls(published),
        "other tasks": other_tasks({task: load(EVIDENCE / task) for task in TASKS}),
        "held": held({"countdown": arms} | {task: load(EVIDENCE / task) for task in TASKS}),
    }
    tables |= {f"stopped, {arm}": stopped_as_accurate(trained, arm, *list(PRIMARY.values())[1:]) for arm in JUDGED}
    PAGE.write_text(fill(TEXT, tables))
    sys.stdout.write(f"Wrote {PAGE}\n\nIn the last quarter:\n{last_quarter(trained, PRIMARY)}\n")
    sys.stdout.write(f"\nFor choosing:\n{choosing(folder / 'choosing')}\n")


def fill(path: Path, tables: dict[str, str]) -> str:
    """Return a page's text, with each name in braces replaced by the table of this name."""
    text = path.read_text()
    for name, table in tables.items():
        text = text.replace(f"{{{name}}}", table)
    return text


def ends(arms: Arms) -> str:
    """Return a table of each arm's final results, averaged over its runs."""
    rows = []
    for arm, runs in arms.items():
        steps = mean(run.record["rollouts"]["step"][-1] for run in runs.values())
        row = [arm, str(len(runs)), f"{steps:.0f}", f"{mean(map(entropy_at_end, runs.values())):.3f}"]
        rows.append([*row, *(f"{mean_of(runs.values(), measure):.3f}" for measure in PRIMARY.values())])
    return markdown_table(["", "runs", "steps", "entropy", *PRIMARY], rows)


def differences(arms: Arms) -> str:
    """Return a table of arms against the baseline, with intervals over problems and runs, and over starts.

    It also has the verdict after Holm's correction.
    """
    found = {
        (arm, name): one
        for arm in arms
        if arm not in ("start", BASELINE) and len(pairs_of(arms, arm)) > 1
        for name, one in differences_of(arms, arm).items()
        if name in PRIMARY
    }
    corrected = holm({key: one.p for key, one in found.items() if key[0] in JUDGED})
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
    return markdown_table(head, rows)


def _verdict(p: float | None) -> str:
    return "" if p is None else f"**found** (p {p:.4f})" if p < 0.05 else f"no (p {p:.2f})"


def holm(values: dict[Key, float]) -> dict[Key, float]:
    """Return p-values corrected by Holm's method."""
    largest, corrected = 0.0, {}
    for rank, (key, p) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(values) - rank) * p))
        corrected[key] = largest
    return corrected


def other_tasks(tasks: dict[str, Arms]) -> str:
    """Return a table of the held arms against the baseline, for the tasks with one start."""
    measures = list(PRIMARY)[1:]
    rows = []
    for task, arms in tasks.items():
        for arm in (arm for arm in JUDGED if arm in arms):
            found = differences_of(arms, arm)
            cells = [
                f"{one.b:.3f} ({one.difference:+.3f}, {one.low:+.3f} to {one.high:+.3f})"
                for one in map(found.get, measures)
                if one
            ]
            rows.append([task, arm, str(len(pairs_of(arms, arm))), *cells])
    return markdown_table(["task", "arm", "pairs", *measures], rows)


def held(tasks: dict[str, Arms]) -> str:
    """Return a table of the entropy's distance from its level, once this is reached.

    It also has the distance without the rollouts with an entropy above the level and a strength of 0, in which the
    method cannot act.
    """
    rows = []
    for task, arms in tasks.items():
        for arm, runs in arms.items():
            errors = [pair for run in runs.values() for pair in _errors(run.record)] if arm in JUDGED else []
            acted = [abs(error) for error, strength in errors if error <= 0 or strength]
            if errors:
                distances = [abs(error) for error, _ in errors]
                shares = (f"{mean(x <= 0.1 for x in some):.0%}" for some in (distances, acted))
                rows.append([task, arm, f"{mean(distances):.1%}", *shares, f"{1 - len(acted) / len(errors):.0%}"])
    head = ["task", "arm", "mean distance", "within 10 %", "where it acts", "above, at 0"]
    return markdown_table(head, rows)


def _errors(record: dict[str, Any]) -> list[tuple[float, float]]:
    """Return relative distances from the moving level with the strength, from the first rollout at or below it on."""
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
    """Return a table of the trial runs, ordered by the mean of the primary measures on the validation split."""
    rows = []
    for path in folder.glob("*.json"):
        record = json.loads(path.read_text())
        if record["arm"] != "start":
            values = [record["validation"][column][-1][1] for column in PRIMARY.values()]
            rows.append((mean(values), [record["arm"], *(f"{value:.3f}" for value in [*values[1:], mean(values)])]))
    head = ["arm", *list(PRIMARY)[1:], "mean"]
    return markdown_table(head, [cells for _, cells in sorted(rows, reverse=True)])


if __name__ == "__main__":
    main()
