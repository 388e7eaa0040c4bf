"""Can the baseline buy variety by being sampled hotter? The models that runs have ended with, at other temperatures.

    python experiments/evidence/temperatures.py --starts 21 22 23

Of every published run of these arms whose folder is still there. Each evaluation is published too, in
docs/evidence/TASK/temperatures/, and not made again.
"""

import argparse
import json
import os
import pkgutil
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

from records import counts_by_sampling, file_of, run_name

from steer_trl.evaluation.counts import EVALUATIONS
from steer_trl.evaluation.folders import read_evaluations
from steer_trl.evaluation.summary import markdown_table
from steer_trl.experiment import Experiment, Task, side_by_side
from steer_trl.experiment.runs import ENVIRONMENT, TEST_RECIPE
from steer_trl.system import write_whole

ROOT = Path(__file__).parents[2]
FOLDER = "temperatures"
OTHERS = ("t0.5", "t0.75", "t1.25", "t1.5", "t2")
"""Temperature 1 is in the runs' own files."""
METRICS = {"accuracy": "avg@16", "pass@16": "pass@16", "distinct": "distinct@16"}


def main() -> None:
    """Evaluate what is missing, and publish it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="steer_trl.countdown:COUNTDOWN", help="MODULE:NAME of a Task")
    parser.add_argument("--arms", nargs="+", default=["GRPO, dynamic sampling", "constant level", "falling level"])
    parser.add_argument("--starts", nargs="+", type=int, default=[0, 1, 2], help="seeds of the models to begin with")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of reinforcement learning")
    parser.add_argument("--workers", type=int, help="evaluations side by side; by default one for each core")
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/evidence")
    parser.add_argument("--published", type=Path, default=ROOT / "docs/evidence")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "experiments/tasks"))
    task: Task = pkgutil.resolve_name(given.task)
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
    record = {"arm": arm, "start": start, "seed": seed, EVALUATIONS: evaluations}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_text(json.dumps(record, separators=(",", ":")) + "\n"))


def temperatures(folder: Path) -> str:
    """Accuracy and variety of each arm's models by the temperature they are sampled at, mean over the runs."""
    found: dict[tuple[str, float], list[dict[str, dict[str, float]]]] = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        arm = json.loads(path.read_text())["arm"]
        evaluations = read_evaluations(path) | {"t1": read_evaluations(folder / path.name)["t1"]}
        for sampling, evaluation in evaluations.items():
            found.setdefault((arm, float(sampling[1:])), []).append(evaluation.values["test"])
    rows = [
        [arm, f"{temperature:g}", str(len(runs))]
        + [f"{mean(mean(run[metric].values()) for run in runs):.3f}" for metric in METRICS.values()]
        for (arm, temperature), runs in sorted(found.items())
    ]
    text = "### Sampled hotter and colder\n\nThe final models, whatever they were trained at; test split.\n\n"
    return text + markdown_table(["arm", "temperature", "runs", *METRICS], rows) if rows else ""


if __name__ == "__main__":
    main()
