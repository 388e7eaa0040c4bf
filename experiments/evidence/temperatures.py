"""Evaluates trained models at other temperatures, to see whether the baseline gains variety at higher ones.

    python -m experiments.evidence.temperatures --starts 21 22 23

It uses all published runs of the arms whose folders still exist. Each evaluation is published in
experiments/results/TASK/temperatures/ and not repeated.
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
"""The samplings to evaluate. Temperature 1 is already in the files of the runs."""


def main() -> None:
    """Make and publish the missing evaluations."""
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
    """Evaluate a run's model as in its test evaluation, except for the temperatures, and publish the result."""
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
