"""Trains a published model with three settings on one GPU, and prints a table. It takes hours and can be resumed.

python -m experiments.gpu --dry_run     what a run would be on this card, in minutes
python -m experiments.gpu               all runs that are missing; started again, it continues
python -m experiments.gpu --table gpu.json
python -m experiments.gpu --tiny        the same in small, on a CPU

The results are one file, gpu.json, which has no prompts, completions, paths or names, and may be sent to others.
"""

import argparse
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
import yaml

from experiments.dial.runs import checkpoints_of
from experiments.gpu.plan import ARMS, SEEDS, Run, make_experiment, runs_of, settings_of
from experiments.gpu.results import find_device, path_of, table, write_file, write_run
from experiments.lab import Experiment
from experiments.lab.runs import ROOT, environment, let_processes_import


def make(experiment: Experiment, runs: list[Run], is_tiny: bool) -> Path:
    """Make the missing runs one after another, and return the path of the file, which is written after each."""
    device = find_device(is_tiny)
    experiment.make_start()
    for run in (None, *runs):
        if path_of(experiment, run).exists():
            continue
        if run is not None:
            experiment.train(run.name, settings_of(run, is_tiny))
        write_run(experiment, run, device, is_tiny)
        for path in [] if run is None else checkpoints_of(experiment.folder(run.name)):
            shutil.rmtree(path)
        write_file(experiment, runs)
    return write_file(experiment, runs)


def look(experiment: Experiment, run: Run, is_tiny: bool) -> int:
    """Make the dry run of a run, and return the exit status of its process."""
    experiment.task.write_problems(experiment.output_dir / "problems", experiment.num_problems)
    path = experiment.output_dir / "dry_run.yaml"
    path.write_text(yaml.safe_dump(experiment.recipe(run.name, settings_of(run, is_tiny) | {"dry_run": True})))
    return subprocess.run(
        [sys.executable, *experiment.program, "train", "--config", str(path)], env=environment()
    ).returncode


def main() -> int:
    """Run what the command line asks for, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output_dir", type=Path, default=ROOT / "runs/gpu", help="folder of models, logs and gpu.json"
    )
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), help="some of the settings")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--tiny", action="store_true", help="a trial on a CPU, whose results mean nothing")
    parser.add_argument("--dry_run", action="store_true", help="one rollout of the last of the arms, and a table")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the table of a file, and run nothing")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.table.read_text())))
        return 0
    if not given.tiny and not torch.cuda.is_available():
        print("No CUDA GPU is visible to torch. For a trial on a CPU: --tiny --output_dir runs/gpu_tiny")
        return 1
    if not given.tiny and not find_spec("vllm"):
        print("vLLM is not installed. `make gpu` installs it, into .venv-vllm; or pip install '.[vllm]'")
        return 1
    let_processes_import()
    output_dir = given.output_dir.resolve()
    output_dir.mkdir(parents=True, exist_ok=True)
    experiment = make_experiment(output_dir, given.tiny)
    runs = runs_of(given.arms, given.seeds)
    if given.dry_run:
        return look(experiment, runs[-1], given.tiny)
    file = make(experiment, runs, given.tiny)
    print(f"\n{table(json.loads(file.read_text()))}\n\nWrote {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
