"""The command-line arguments that select runs, which all commands in this folder share."""

import argparse
import pkgutil
from pathlib import Path

from experiments.lab import Task
from experiments.lab.runs import ROOT, let_processes_import


def parser_of_runs(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the arguments for task, arms, starts, seeds and folders."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="experiments.lab.countdown:COUNTDOWN", help="MODULE:NAME of a Task")
    parser.add_argument("--arms", nargs="+", help="some of them; by default all")
    parser.add_argument("--starts", nargs="+", type=int, default=[0, 1, 2], help="seeds of the models to begin with")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of reinforcement learning")
    parser.add_argument("--workers", type=int, help="how many side by side; by default one for each core")
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/evidence")
    parser.add_argument("--published", type=Path, default=ROOT / "experiments/results")
    return parser


def find_task(name: str) -> Task:
    """Import a task, and let child processes import it, too."""
    let_processes_import()
    task: Task = pkgutil.resolve_name(name)
    return task
