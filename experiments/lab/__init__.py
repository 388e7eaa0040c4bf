"""Several ways to train from one start, side by side, each by the commands that a user has.

task.py      what is learned: problems in three splits, who judges, where a model begins
runs.py      steer-trl train and steer-trl eval in processes of their own, resumable, with progress bars
results.py   what they left: the table, and the verdicts of steer-trl compare
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
