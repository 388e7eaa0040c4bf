"""The arguments that name runs, which every command here takes."""

import argparse
import os
import pkgutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from lab import Task

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"
TASKS = EXPERIMENTS / "tasks"


def parser_of_runs(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows task, arms, starts and seeds, and where runs are and are published."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="lab.countdown:COUNTDOWN", help="MODULE:NAME of a Task")
    parser.add_argument("--arms", nargs="+", help="some of them; by default all")
    parser.add_argument("--starts", nargs="+", type=int, default=[0, 1, 2], help="seeds of the models to begin with")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of reinforcement learning")
    parser.add_argument("--workers", type=int, help="how many side by side; by default one for each core")
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/evidence")
    parser.add_argument("--published", type=Path, default=ROOT / "docs/evidence")
    return parser


def find_task(name: str) -> Task:
    """Import a task, of experiments/tasks too, which the processes that are started can import then."""
    sys.path.insert(0, str(TASKS))
    paths = [str(TASKS), str(EXPERIMENTS), str(ROOT / "examples/methods"), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    task: Task = pkgutil.resolve_name(name)
    return task
