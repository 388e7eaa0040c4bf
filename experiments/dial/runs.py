"""Runs one job of the plan: makes its start model, trains, evaluates, and publishes one file."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from experiments.dial.plan import Job, file_name
from experiments.lab import Experiment
from experiments.lab.countdown import COUNTDOWN
from experiments.lab.records import counts_by_sampling, publish
from experiments.lab.runs import TEST, TEST_RECIPE, environment
from steer_trl.evaluation.folders import read_evaluations
from steer_trl.support.exceptions import CannotContinueError
from steer_trl.trainer.checkpoints.checkpoint import read_state

CHECKPOINTS = "_checkpoints"


class Runs:
    """Makes and publishes runs.

    Attributes:
        output_dir (`Path`): the folder of models, logs and completions.
        published (`Path`): the folder of the published files.
    """

    def __init__(self, output_dir: Path, published: Path) -> None:
        self.output_dir, self.published = output_dir.resolve(), published.resolve()
        self._locks: dict[Path, Lock] = {}

    def path(self, job: Job) -> Path:
        """Return the path of a job's published file."""
        return self.published / job.folder / job.file

    def run(self, job: Job) -> None:
        """Do the parts of a job that are not done yet.

        Raises:
            `CannotContinueError`: a command failed. The message holds the end of its output.
        """
        if self.path(job).exists():
            return
        experiment = self._experiment(job)
        self._make_start(job, experiment)
        name = f"{job.arm}, to the end" if job.continues else job.arm
        if job.keeps_checkpoints:
            name += ", with its checkpoints"
        if job.continues:
            self._continue(experiment, job, name)
        experiment.train(name, job.settings)
        more: dict[str, Any] = {"regime": job.regime, "block": job.block, "start_steps": job.start_steps}
        if job.checkpoint_evaluation:
            more["checkpoints"] = self._evaluate_checkpoints(experiment, job, name)
        publish(self.path(job), experiment, name, job.arm, job.start, job.settings, more)

    def _experiment(self, job: Job) -> Experiment:
        return Experiment(
            COUNTDOWN,
            self.output_dir / job.regime / f"start-{job.start}",
            seed=job.start,
            start_steps=job.start_steps,
            samplings=job.evaluation["samplings"],
            splits=job.evaluation["splits"],
            num_problems=job.evaluation.get("num_problems"),
        )

    def _make_start(self, job: Job, experiment: Experiment) -> None:
        """Make, evaluate and publish the start model, while other workers that need it wait.

        Raises:
            `CannotContinueError`: the published start is another model. The same seed gives other weights on another
                kind of processor, and runs from different models cannot be paired.
        """
        with self._locks.setdefault(experiment.output_dir, Lock()):
            path = self.published / job.folder / file_name("start", job.start)
            experiment.make_start()
            weights = digest_weights(Path(experiment.start))
            if not path.exists():
                more = {"regime": job.regime, "start_steps": job.start_steps, "weights": weights}
                publish(path, experiment, "start", "start", more=more)
            elif json.loads(path.read_text()).get("weights", weights) != weights:
                raise CannotContinueError(
                    f"{path} is of another model than {experiment.start}. Was it made on another machine? Publish the "
                    "runs from this start to a folder of their own."
                )

    def _continue(self, experiment: Experiment, job: Job, name: str) -> None:
        """Copy the shorter run if it is still on the disk, so that training continues from its last checkpoint."""
        folder, shorter = experiment.folder(name), experiment.folder(job.arm)
        if folder.exists() or not checkpoints_of(shorter):
            return
        shutil.copytree(shorter, folder, ignore=shutil.ignore_patterns(TEST, CHECKPOINTS))
        recipe = experiment.recipe(name, job.settings)
        (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))

    def _evaluate_checkpoints(self, experiment: Experiment, job: Job, name: str) -> list[dict[str, Any]]:
        """Evaluate the checkpoint nearest to each multiple of `every` tokens, and remove all but the last."""
        how = job.checkpoint_evaluation
        assert how is not None
        run = experiment.folder(name)
        found = {int(tokens): path for path in checkpoints_of(run) if (tokens := tokens_of(path))}
        budget = job.settings["max_generated_tokens"]
        chosen = [min(found, key=lambda n: abs(n - at)) for at in range(how["every"], budget, how["every"])]
        problems = {split: first_problems(experiment, split, how["num_problems"]) for split in how["splits"]}
        records = []
        for tokens in dict.fromkeys(chosen):
            output = run / CHECKPOINTS / found[tokens].name
            recipe = yaml.safe_load((run / TEST_RECIPE).read_text()) | {
                "model_name_or_path": str(found[tokens]),
                "output_dir": str(output),
                "benchmarks": [f"{split}={path}@16" for split, path in problems.items()],
                "samplings": list(how["samplings"]),
            }
            evaluate(recipe, run / CHECKPOINTS / f"{found[tokens].name}.yaml")
            step = int(found[tokens].name.rpartition("-")[2])
            evaluations = counts_by_sampling(read_evaluations(output))
            records.append({"step": step, "generated_tokens": tokens, "evaluations": evaluations})
        for path in checkpoints_of(run)[:-1]:
            shutil.rmtree(path)
        return records


def digest_weights(model: Path) -> str:
    """Return a digest of a saved model's weights, in 16 hexadecimal digits."""
    return hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()[:16]


def evaluate(recipe: dict[str, Any], path: Path) -> None:
    """Run `steer-trl eval` with a recipe, which is written to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    command = [sys.executable, "-m", "steer_trl.cli", "eval", "--config", str(path)]
    with open(path.with_suffix(".txt"), "w") as output:
        done = subprocess.run(command, env=environment(), stdout=output, stderr=subprocess.STDOUT)
    if done.returncode:
        raise CannotContinueError(f"{path} failed. See {path.with_suffix('.txt')}.")


def checkpoints_of(run: Path) -> list[Path]:
    """Return the checkpoints of a run, the earliest first."""
    return sorted(run.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))


def tokens_of(checkpoint: Path) -> int | None:
    """Return how many tokens had been generated when a checkpoint was saved."""
    generated: dict[str, Any] = read_state(checkpoint).get("generated", {})
    return generated.get("total")


def first_problems(experiment: Experiment, split: str, count: int) -> Path:
    """Write the first `count` problems of a split to a file, and return its path."""
    source = Path(experiment.problems(split))
    path = source.with_name(f"{split}-first-{count}.jsonl")
    path.write_text("".join(source.read_text().splitlines(keepends=True)[:count]))
    return path


def describe(job: Job, runs: Runs) -> str:
    """Return a line that describes a job and whether it is done."""
    state = "done" if runs.path(job).exists() else "    "
    return f"{state}  {job.block:16} start {job.start}  {job.arm}"
