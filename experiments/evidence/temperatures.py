"""Can the baseline buy variety by being sampled hotter? The models that runs have ended with, at other temperatures.

    python experiments/evidence/temperatures.py --starts 21 22 23

Of every published run of these arms whose folder is still there. Each evaluation is published too, in
docs/evidence/TASK/temperatures/, and not made again.
"""

import json
import os
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np
from arguments import find_task, parser_of_runs
from lab import Experiment, side_by_side
from lab.runs import ENVIRONMENT, TEST_RECIPE
from records import counts_by_sampling, file_of, run_name, write_record
from scipy import stats

from steer_trl.evaluation.counts import EVALUATIONS
from steer_trl.evaluation.folders import read_evaluations
from steer_trl.evaluation.summary import markdown_table

FOLDER = "temperatures"
OTHERS = ("t0.25", "t0.5", "t0.75", "t1.25", "t1.5", "t2")
"""Temperature 1 is in the runs' own files."""
Point = dict[str, float]
METRICS = {"accuracy": "avg@16", "pass@16": "pass@16", "distinct": "distinct@16"}


def main() -> None:
    """Evaluate what is missing, and publish it."""
    parser = parser_of_runs(__doc__)
    parser.set_defaults(arms=["GRPO, dynamic sampling", "constant level", "falling level"])
    given = parser.parse_args()
    task = find_task(given.task)
    runs, published = given.output_dir / task.name, given.published / task.name
    jobs = [
        (arm, start, seed, Experiment(task, runs / f"start-{start}").folder(run_name(arm, seed)))
        for arm, start, seed in product(given.arms, given.starts, given.seeds)
        if file_of(published, arm, start, seed).exists()
    ]
    side_by_side(partial(evaluate, published / FOLDER), jobs, given.workers)


def evaluate(published: Path, job: tuple[str, int, int, Path]) -> None:
    """Evaluate a run's model as its test evaluation did, but for the temperature."""
    arm, start, seed, run = job
    path = file_of(published, arm, start, seed)
    if path.exists():
        return
    command = [sys.executable, "-m", "steer_trl.cli", "eval", "--config", str(run / TEST_RECIPE)]
    command += ["--output_dir", str(run / f"_{FOLDER}"), "--samplings", *OTHERS]
    subprocess.run(command, env=os.environ | ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    evaluations = counts_by_sampling(read_evaluations(run / f"_{FOLDER}"))
    write_record(path, {"arm": arm, "start": start, "seed": seed, EVALUATIONS: evaluations})


def temperatures(folder: Path, baseline: str) -> str:
    """Accuracy and variety by the temperature that models are sampled at, mean over an arm's runs; and compared."""
    runs = _load(folder)
    if not runs:
        return ""
    text = "### Sampled hotter and colder\n\nThe final models, all trained at temperature 1; test split.\n\n"
    rows = []
    for arm, of_arm in runs.items():
        for points in zip(*of_arm.values(), strict=True):
            means = (f"{mean(point[metric] for point in points):.3f}" for metric in METRICS)
            rows.append([arm, f"{points[0]['temperature']:g}", str(len(points)), *means])
    tables = [markdown_table(["arm", "temperature", "runs", *METRICS], rows)]
    if baseline in runs and len(runs) > 1:
        tables.append(_at_equal_accuracy(runs, baseline))
    return text + "\n\n".join(tables)


def _load(folder: Path) -> dict[str, dict[tuple[int, int], list[Point]]]:
    """By arm and by seeds of start and training: a point for each temperature, coldest first."""
    found: dict[str, dict[tuple[int, int], list[Point]]] = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        record = json.loads(path.read_text())
        evaluations = read_evaluations(path) | {"t1": read_evaluations(folder / path.name)["t1"]}
        points = [
            {"temperature": float(sampling[1:])}
            | {name: mean(evaluation.values["test"][metric].values()) for name, metric in METRICS.items()}
            for sampling, evaluation in evaluations.items()
        ]
        pair = record["start"], record["seed"]
        found.setdefault(record["arm"], {})[pair] = sorted(points, key=lambda point: point["temperature"])
    return found


def _at_equal_accuracy(runs: dict[str, dict[tuple[int, int], list[Point]]], baseline: str) -> str:
    """Pass@16 of an arm's models, sampled so that they are as accurate as the baseline's of the same seeds."""
    rows = []
    for arm, of_arm in runs.items():
        for temperature in (1.0, 1.25) if arm != baseline else ():
            gained = [
                _gained(of_arm[pair], next(p for p in runs[baseline][pair] if p["temperature"] == temperature))
                for pair in of_arm.keys() & runs[baseline].keys()
            ]
            known = [value for value in gained if value is not None]
            if len(known) > 1:
                half = stats.t.ppf(0.975, len(known) - 1) * stats.sem(known)
                spread = [f"{mean(known):+.3f} ±{half:.3f}", f"{min(known):+.3f} to {max(known):+.3f}"]
                rows.append([arm, f"{temperature:g}", f"{len(known)} of {len(gained)}", *spread])
    text = (
        "Each model sampled at the temperature at which it is as accurate as the baseline's of the same seeds is at 1 "
        "or 1.25,\ninterpolated: pass@16 gained, mean and 95 % interval over pairs (Student's t), and its range. "
        "Without pairs whose\nmodel is not that accurate at any of the temperatures. Not in the protocol: a look "
        "afterwards.\n\n"
    )
    return text + markdown_table(["arm", "temperature of the other", "pairs", "pass@16 gained", "range"], rows)


def _gained(points: list[Point], other: Point) -> float | None:
    """Pass@16 beyond another's at the other's accuracy, which falls with the temperature."""
    accuracies, solved = ([point[name] for point in reversed(points)] for name in ("accuracy", "pass@16"))
    if not accuracies[0] <= other["accuracy"] <= accuracies[-1]:
        return None
    return float(np.interp(other["accuracy"], accuracies, solved)) - other["pass@16"]


if __name__ == "__main__":
    main()
