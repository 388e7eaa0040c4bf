"""Runs one job of the plan: trains, evaluates, writes its record, and publishes a unit when it is whole.

A run whose rate falls ends after a number of steps that is meant to give it the tokens of the baseline. If its tokens
differ from these by more than 3 %, it is repeated once.
"""

import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import torch

from experiments.lab import Experiment
from experiments.lab.countdown import COUNTDOWN
from experiments.lab.records import file_of, publish, write_record
from experiments.lab.runs import START
from experiments.letgo import published
from experiments.letgo.checkpoints import at_equal_steps, remove_checkpoints, stop_early
from experiments.letgo.plan import BASELINE, Job, RunName
from experiments.letgo.published import Record
from experiments.letgo.starts import put
from steer_trl.support.exceptions import CannotContinueError

FIRST_ROLLOUT = ("generated_tokens", "reward", "completions/mean_length")
"""What all runs of a unit share before their first update."""
TOLERANCE = 0.03
"""The largest difference between the tokens of a run and the baseline's, as a share of the baseline's."""


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

    def path(self, job: Job | RunName, arm: str | None = None) -> Path:
        """Return the path of a run's record, or of another arm's of the same unit."""
        return file_of(self.output_dir / "records" / job.unit, arm or job.arm, job.start, job.run)

    def is_done(self, job: Job) -> bool:
        """Return whether the run has a record."""
        return self.path(job).exists()

    def needed(self, job: Job) -> list[Path]:
        """Return the paths of the records that a run needs before it can begin."""
        return [self.path(name) for name in (job.steps_of, job.tokens_of) if name]

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
        about = {"block": job.block, "run": job.run, "start_weights": weights, "processor": processor()}
        settings = job.settings | self._steps(job)
        if job.stop_early or job.equal_steps:
            settings |= {"save_total_limit": None}
        name = f"{job.arm}, run {job.run}"
        record = self._train(job, experiment, name, settings, about)
        if other_steps := self._other_steps(job, record):
            about["before"] = {key: record[key] for key in ("steps", "generated_tokens")}
            settings |= {"max_steps": other_steps}
            name += ", repeated"
            record = self._train(job, experiment, name, settings, about)
        self._check(job, record)
        folder = experiment.folder(name)
        if job.stop_early:
            record["stopped_early"] = stop_early(experiment, folder, job.stop_early)
        if job.equal_steps:
            record["at_equal_steps"] = self._at_equal_steps(job, folder)
        write_record(self.path(job), record)
        remove_checkpoints(folder)

    def _train(self, job: Job, experiment: Experiment, name: str, settings: Record, about: Record) -> Record:
        """Train and evaluate, and return the record."""
        experiment.train(name, settings)
        part = self.path(job).with_suffix(".part")
        publish(part, experiment, name, job.arm, settings["seed"], settings, about)
        record: Record = json.loads(part.read_text())
        part.unlink()
        return record

    def _steps(self, job: Job) -> dict[str, int]:
        """Return the number of steps of a run that ends by its steps.

        These are those of the run at a constant rate, times the baseline's tokens over that run's.
        """
        if job.steps_of is None:
            return {}
        constant = self._record(job.steps_of)
        share = 1.0
        if job.tokens_of:
            share = self._record(job.tokens_of)["generated_tokens"] / constant["settings"]["max_generated_tokens"]
        return {"max_steps": round(constant["steps"] * share)}

    def _other_steps(self, job: Job, record: Record) -> int | None:
        """Return the number of steps with which a run is repeated, or `None` if its tokens agree."""
        if job.tokens_of is None:
            return None
        ratio: float = self._record(job.tokens_of)["generated_tokens"] / record["generated_tokens"]
        return round(record["steps"] * ratio) if abs(1 / ratio - 1) > TOLERANCE else None

    def _record(self, run: RunName) -> Record:
        """Read the record of another run.

        Raises:
            `CannotContinueError`: it is not there.
        """
        path = self.path(run)
        if not path.exists():
            raise CannotContinueError(
                f"{run.unit}, {run.arm} has no record, and its number of steps is needed here. First make the "
                f"missing runs of {run.block}."
            )
        record: Record = json.loads(path.read_text())
        return record

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

    def _at_equal_steps(self, job: Job, folder: Path) -> Record:
        """Evaluate the checkpoint nearest to the baseline's number of steps."""
        baseline = self._record(RunName(job.block, BASELINE, job.start, job.run))
        return at_equal_steps(folder, baseline["steps"])

    def publish(self, jobs: Sequence[Job]) -> None:
        """Publish the units of these jobs: a block's once they are whole, a pilot's and a look's as they grow."""
        units: dict[str, list[Job]] = {}
        for job in jobs:
            units.setdefault(job.unit, []).append(job)
        with self._publishing:
            for unit, of_unit in units.items():
                paths = [self.path(of_unit[0], START), *(self.path(job) for job in of_unit)]
                existing = [path for path in paths if path.exists()]
                if existing == paths or (existing and not of_unit[0].is_counted):
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
