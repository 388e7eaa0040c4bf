"""Runs one job of the plan: trains, evaluates, writes its record, and publishes a unit when it is whole."""

import json
import platform
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import torch
import yaml

from experiments.dial.runs import checkpoints_of, evaluate
from experiments.lab import Experiment
from experiments.lab.countdown import COUNTDOWN
from experiments.lab.records import counts_by_sampling, file_of, publish, write_record
from experiments.lab.runs import START, TEST, TEST_RECIPE
from experiments.letgo import published
from experiments.letgo.plan import BASELINE, NAMED, Job
from experiments.letgo.published import Record
from experiments.letgo.starts import put
from steer_trl.evaluation.folders import read_evaluations
from steer_trl.support.exceptions import CannotContinueError

AT_EQUAL_STEPS = "_at_equal_steps"
FIRST_ROLLOUT = ("generated_tokens", "reward", "completions/mean_length")
"""What all runs of a unit share before their first update."""


class Runs:
    """Makes runs and their records.

    Attributes:
        output_dir (`Path`): the folder of models, logs and records.
        published (`Path`): the folder of the published files.
    """

    def __init__(self, output_dir: Path, published: Path) -> None:
        self.output_dir, self.published = output_dir.resolve(), published.resolve()
        self._locks: dict[int, Lock] = {}
        self._publishing = Lock()

    def path(self, job: Job, arm: str | None = None) -> Path:
        """Return the path of a job's record, or of another arm's of the same unit."""
        return file_of(self.output_dir / "records" / job.unit, arm or job.arm, job.start, job.run)

    def is_done(self, job: Job) -> bool:
        """Return whether the run has a record."""
        return self.path(job).exists()

    def unpack(self) -> None:
        """Write the records of the published files to the folder of the runs, where they are missing."""
        for unit in published.units(self.published):
            for record in published.read_unit(self.published, unit).values():
                path = file_of(self.output_dir / "records" / unit, record["arm"], record["start"], record["run"])
                if not path.exists():
                    write_record(path, record)

    def run(self, job: Job) -> None:
        """Do the parts of a job that are not done yet.

        Raises:
            `CannotContinueError`: a command failed, or the run cannot be compared with the others of its unit.
        """
        if self.is_done(job):
            return
        experiment = Experiment(
            COUNTDOWN,
            self.output_dir / f"start-{job.start}",
            seed=job.start,
            start_steps=job.start_steps,
            samplings=job.samplings,
            splits=[job.split],
            num_problems=job.num_problems,
        )
        weights = self._make_start(job, experiment)
        name = f"{job.arm}, run {job.run}"
        settings = job.settings
        if job.block != "pilot" and job.arm == NAMED:
            settings = settings | {"save_total_limit": None}
        experiment.train(name, settings)
        about = {"block": job.block, "run": job.run, "start_weights": weights, "processor": processor()}
        path = self.path(job)
        part = path.with_suffix(".part")
        publish(part, experiment, name, job.arm, settings["seed"], settings, about)
        record = json.loads(part.read_text())
        self._check(job, record)
        if "save_total_limit" in settings:
            record["at_equal_steps"] = self._at_equal_steps(job, experiment, name)
        write_record(path, record)
        part.unlink()

    def _make_start(self, job: Job, experiment: Experiment) -> str:
        """Evaluate the start model and write its record, while other workers that need it wait."""
        with self._locks.setdefault(job.start, Lock()):
            weights = put(experiment)
            experiment.make_start()
            path = self.path(job, START)
            if not path.exists():
                more = {"block": job.block, "run": job.run, "start_weights": weights, "processor": processor()}
                publish(path, experiment, START, START, more=more)
        return weights

    def _check(self, job: Job, record: Record) -> None:
        """Compare a run with the others of its unit: the processor, the weights and the first rollout.

        Raises:
            `CannotContinueError`: they differ.
        """
        for path in sorted(self.path(job).parent.glob("*.json")):
            other = json.loads(path.read_text())
            differing = differences(record, other)
            if differing:
                raise CannotContinueError(
                    f"{job.unit}, {job.arm} differs from {path.name} in {', '.join(differing)}, so they cannot be "
                    f"compared. Remove {path.parent} and the unit's runs, and make all of them again."
                )

    def _at_equal_steps(self, job: Job, experiment: Experiment, name: str) -> Record:
        """Evaluate the checkpoint nearest to the baseline's number of steps, and remove all but the last."""
        baseline = self.path(job, BASELINE)
        if not baseline.exists():
            raise CannotContinueError(f"{job.unit}, {job.arm} needs the record of {BASELINE}. Run the command again.")
        steps = json.loads(baseline.read_text())["steps"]
        run = experiment.folder(name)
        checkpoints = {int(path.name.rpartition("-")[2]): path for path in checkpoints_of(run)}
        nearest = min(checkpoints, key=lambda step: abs(step - steps))
        output = run / AT_EQUAL_STEPS
        recipe = yaml.safe_load((run / TEST_RECIPE).read_text())
        recipe |= {"model_name_or_path": str(checkpoints[nearest]), "output_dir": str(output / TEST)}
        evaluate(recipe, output / TEST_RECIPE)
        for path in checkpoints_of(run)[:-1]:
            shutil.rmtree(path)
        return {"step": nearest, "evaluations": counts_by_sampling(read_evaluations(output / TEST))}

    def publish(self, jobs: Sequence[Job]) -> None:
        """Publish the units of these jobs: those of the pilot as far as they are, all others when they are whole."""
        units: dict[str, list[Job]] = {}
        for job in jobs:
            units.setdefault(job.unit, []).append(job)
        with self._publishing:
            for unit, of_unit in units.items():
                paths = [self.path(of_unit[0], START), *(self.path(job) for job in of_unit)]
                existing = [path for path in paths if path.exists()]
                if existing == paths or (existing and of_unit[0].block == "pilot"):
                    published.write_unit(self.published, unit, existing)


def differences(record: Record, other: Record) -> list[str]:
    """Return in what two runs differ that all runs of a unit share. A start model has no rollouts."""
    shared = {key: (record[key], other[key]) for key in ("start_weights", "processor")}
    if "rollouts" in other:
        first = {key: (record["rollouts"][key][0], other["rollouts"][key][0]) for key in FIRST_ROLLOUT}
        shared |= {f"the first rollout's {key}": pair for key, pair in first.items()}
    return [f"{key} ({a} and {b})" for key, (a, b) in shared.items() if a != b]


def processor() -> str:
    """Return the kind of this machine's processor: vendor, family, model, and the instructions that PyTorch uses."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    found = {key: re.search(rf"^{key}\s*: (.+)$", text, re.MULTILINE) for key in ("vendor_id", "cpu family", "model")}
    kind = " ".join(f"{key} {value[1]}" for key, value in found.items() if value) or platform.processor()
    return f"{kind}, {torch.backends.cpu.get_cpu_capability()}"
