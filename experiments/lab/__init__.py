"""Compares several ways of training from the same start model, using the commands that users have.

task.py      tasks: problems in three splits, a reward function and a start model
runs.py      resumable runs of steer-trl train and steer-trl eval in separate processes, with progress bars
results.py   the results of runs: the table, and the verdicts of steer-trl compare
"""

from experiments.lab.results import frame, read_results, table, verdicts
from experiments.lab.runs import Experiment, side_by_side
from experiments.lab.task import Task

__all__ = [
    "Experiment",
    "Task",
    "frame",
    "read_results",
    "side_by_side",
    "table",
    "verdicts",
]
