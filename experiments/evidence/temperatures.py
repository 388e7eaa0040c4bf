"""Can the baseline buy variety by being sampled hotter? The models that runs have ended with, at other temperatures.

    python -m experiments.evidence.temperatures --starts 21 22 23

Of every published run of these arms whose folder is still there. Each evaluation is published too, in
experiments/results/TASK/temperatures/, and not made again.
"""

import os
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path

from experiments.evidence.arguments import find_task, parser_of_runs
from experiments.evidence.frontier import FOLDER
from experiments.evidence.records import counts_by_sampling, file_of, run_name, write_record
from experiments.lab import Experiment, side_by_side
from experiments.lab.published import EVALUATIONS
from experiments.lab.runs import ENVIRONMENT, TEST_RECIPE
from steer_trl.evaluation.folders import read_evaluations

OTHERS = ("t0.25", "t0.5", "t0.75", "t1.25", "t1.5", "t2")
"""Temperature 1 is in the runs' own files."""


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


if __name__ == "__main__":
    main()
