"""Evaluates checkpoints of a run as the model at its end was evaluated.

at_equal_steps   the checkpoint nearest to another run's number of steps
stop_early       the checkpoint that solves most validation problems, of those nearest to each million tokens
"""

import shutil
from pathlib import Path
from typing import Any

import yaml

from experiments.dial.runs import checkpoints_of, evaluate, first_problems, tokens_of
from experiments.lab import Experiment
from experiments.lab.records import counts_by_sampling
from experiments.lab.runs import SAMPLES, TEST, TEST_RECIPE
from experiments.letgo.rule import score_of
from steer_trl.evaluation.folders import read_evaluations

AT_EQUAL_STEPS, STOPPED_EARLY, VALIDATION = "_at_equal_steps", "_stopped_early", "_validation"


def at_equal_steps(run: Path, steps: int) -> dict[str, Any]:
    """Return the step and the evaluations of the checkpoint nearest to a number of steps."""
    checkpoints = {step_of(path): path for path in checkpoints_of(run)}
    nearest = min(checkpoints, key=lambda step: abs(step - steps))
    evaluations = evaluate_checkpoint(run, checkpoints[nearest], AT_EQUAL_STEPS)
    return {"step": nearest, "evaluations": evaluations}


def stop_early(experiment: Experiment, run: Path, how: dict[str, Any]) -> dict[str, Any]:
    """Return the step, the tokens, the scores and the evaluations of the checkpoint with the largest score.

    Args:
        experiment ([`Experiment`]), run (`Path`): the experiment, and the folder of one of its runs.
        how (`dict`): the number of tokens between checkpoints (`every`), and the first `num_problems` of a `split` by
            which they are compared at temperature 1.
    """
    found = {int(tokens): path for path in checkpoints_of(run) if (tokens := tokens_of(path))}
    marks = range(how["every"], max(found) + how["every"] // 2, how["every"])
    nearest = dict.fromkeys(min(found, key=lambda tokens: abs(tokens - mark)) for mark in marks)
    problems = first_problems(experiment, how["split"], how["num_problems"])
    compared = {"benchmarks": [f"{how['split']}={problems}@{SAMPLES}"], "samplings": ["t1"]}
    scores = {}
    for tokens in nearest:
        evaluations = evaluate_checkpoint(run, found[tokens], f"{VALIDATION}/{found[tokens].name}", compared)
        (counts,) = evaluations["t1"]["benchmarks"].values()
        scores[tokens] = score_of(counts)
    best = max(scores, key=lambda tokens: scores[tokens])
    evaluations = evaluate_checkpoint(run, found[best], STOPPED_EARLY)
    return {"step": step_of(found[best]), "generated_tokens": best, "scores": scores, "evaluations": evaluations}


def evaluate_checkpoint(
    run: Path, checkpoint: Path, output: str, changes: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Evaluate a checkpoint in the same way as the final model, except for `changes`, and return what is published."""
    folder = run / output
    recipe = yaml.safe_load((run / TEST_RECIPE).read_text()) | (changes or {})
    recipe |= {"model_name_or_path": str(checkpoint), "output_dir": str(folder / TEST)}
    evaluate(recipe, folder / TEST_RECIPE)
    return counts_by_sampling(read_evaluations(folder / TEST))


def step_of(checkpoint: Path) -> int:
    """Return the number of steps after which a checkpoint was saved."""
    return int(checkpoint.name.rpartition("-")[2])


def remove_checkpoints(run: Path) -> None:
    """Remove all checkpoints of a run but the last."""
    for path in checkpoints_of(run)[:-1]:
        shutil.rmtree(path)
