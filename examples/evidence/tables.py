"""The page of the published runs: how well entropy was held, and what was learned at equal entropy.

Intervals are 95 %, Student's t over seeds; differences are paired by seed, which shares the data's order.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

BASELINE = "GRPO"
SETTLED = 80  # rollouts: four times the time in which the path to the target falls by a factor e
JUDGED = {
    "accuracy, top-p 0.7": ("top-p 0.7", "accuracy"),
    "accuracy, greedy": ("greedy", "accuracy"),
    "accuracy, T=1": ("T=1", "accuracy"),
    "pass@16, T=1": ("T=1", "pass@16"),
    "distinct, T=1": ("T=1", "distinct"),
}

STUDENT_T = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Number of values -> 0.975 quantile of Student's t with one degree of freedom less."""

Run = dict[str, Any]


def load(folder: Path) -> dict[str, list[Run]]:
    """The published runs by arm, each arm's in the order of its seeds."""
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    arms: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run["arm"], run["seed"])):
        arms.setdefault(run["arm"], []).append(run)
    return arms


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval; the half width of a single value is infinite."""
    values = list(values)
    if len(values) < 2:
        return mean(values), float("inf")
    return mean(values), STUDENT_T[len(values)] * stdev(values) / len(values) ** 0.5


def held_error(run: Run) -> tuple[float, float] | None:
    """Mean |H - H*| / H* and the share of rollouts within 10 %, after settling; `None` without a target."""
    points = [entry for entry in run["log"] if "hold_entropy/target" in entry and "rollout_entropy" in entry]
    errors = [abs(e["rollout_entropy"] / e["hold_entropy/target"] - 1) for e in points[SETTLED:]]
    return (mean(errors), mean(error <= 0.1 for error in errors)) if errors else None


def settling(run: Run) -> int | None:
    """Rollouts until the mean of eight stays within 10 % of the target for the rest of its path; `None` if never."""
    points = [entry for entry in run["log"] if "hold_entropy/target" in entry and "rollout_entropy" in entry]
    near = [
        abs(mean(e["rollout_entropy"] for e in points[max(0, i - 7) : i + 1]) / e["hold_entropy/target"] - 1) <= 0.1
        for i, e in enumerate(points)
    ]
    return near.index(True) if True in near else None


def judged(run: Run, metric: tuple[str, str], step: int | None = None) -> float:
    """A metric of the last evaluation, or of that at `step`."""
    points = [point for point in run["held_out"] if step is None or point["step"] == step]
    return points[-1][metric[0]][metric[1]][0]


def page(folder: Path) -> str:
    """The page in Markdown."""
    arms = load(folder)
    return (
        "\n\n".join(["# At equal entropy, which way of holding it learns most?", _held(arms), _learned(arms)]) + "\n"
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _held(arms: dict[str, list[Run]]) -> str:
    rows = []
    for arm, runs in arms.items():
        if errors := [error for run in runs if (error := held_error(run)) is not None]:
            times = [time for run in runs if (time := settling(run)) is not None]
            rows.append(
                [
                    arm,
                    str(len(runs)),
                    ", ".join(f"{error:.1%}" for error, _ in errors),
                    ", ".join(f"{share:.0%}" for _, share in errors),
                    f"{mean(times):.0f}" if times else "never",
                ]
            )
    text = (
        f"## How well the entropy was held\n\nAfter {SETTLED} rollouts, one number per seed: the mean distance from "
        "the target as a share of it, and the share of rollouts within 10 %. Then the rollouts until it was first "
        "within 10 %, mean of seeds.\n\n"
    )
    return text + _table(["", "seeds", "mean error", "within 10 %", "settled after"], rows)


def _learned(arms: dict[str, list[Run]]) -> str:
    base = {run["seed"]: run for run in arms.get(BASELINE, [])}
    rows = []
    for arm, runs in arms.items():
        entropies = [mean(e["entropy"] for e in run["log"][-20:] if "entropy" in e) for run in runs]
        cells = [arm, str(len(runs)), f"{mean(entropies):.3f}"]
        cells += [_cell(runs, base, lambda run, m=metric: judged(run, m)) for metric in JUDGED.values()]
        rows.append(cells)
    text = (
        f"## What was learned\n\nAt the end of each run: the mean over seeds and, in brackets, the difference from "
        f"{BASELINE} with its 95 % interval over paired seeds. Entropy: mean of the last twenty entries, nats.\n\n"
    )
    return text + _table(["", "seeds", "entropy", *JUDGED], rows)


def _cell(runs: list[Run], base: dict[int, Run], value: Callable[[Run], float]) -> str:
    text = f"{mean(map(value, runs)):.3f}"
    pairs = [value(run) - value(base[run["seed"]]) for run in runs if run["seed"] in base]
    if runs[0]["arm"] == BASELINE or not pairs:
        return text
    center, half = interval(pairs)
    return f"{text} ({center:+.3f})" if half == float("inf") else f"{text} ({center:+.3f} ±{half:.3f})"
