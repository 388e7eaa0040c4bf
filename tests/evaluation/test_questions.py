"""Evaluations in training are compared only if they asked and judged alike, as evaluations by `steer-trl eval` are."""

import json
from functools import partial

import pytest
from datasets import Dataset

from steer_trl.evaluation import Benchmark, BenchmarkEvaluation, Completion, Sampling
from steer_trl.evaluation.folders import compare_samplings, read_evaluations
from steer_trl.evaluation.questions import describe_judge
from steer_trl.evaluation.sweeps import _read_runs
from steer_trl.report.evaluations import RunEvaluations, compare_runs
from steer_trl.rewards import MathReward
from steer_trl.support.exceptions import InvalidValueError

EASY = [{"id": str(i), "prompt": f"{i}+{i}=", "solution": str(2 * i)} for i in range(6)]
HARD = [{"id": str(i), "prompt": f"{i}**{i}=", "solution": str(i**i)} for i in range(6)]


class Draw:
    """Answers with the length of the prompt."""

    is_collective = needs_equal_batches = False

    def __call__(self, prompts, sampling, seed):
        return [Completion(f"Answer: \\boxed{{{len(prompt)}}}", 3, False) for prompt in prompts]


def has_one(completions, **_):
    return [float("1" in text) for text in completions]


def is_long(completions, length=3, **_):
    return [float(len(text) > length) for text in completions]


class Above:
    def __init__(self, limit):
        self.limit = limit

    def __call__(self, completions, **_):
        return [float(len(text) > self.limit) for text in completions]


def closure(limit):
    return lambda completions, **_: [float(len(text) > limit) for text in completions]


def run(folder, rows=EASY, samples=2, judge=has_one, **sampling):
    benchmark = Benchmark("sums", Dataset.from_list(rows), samples)
    BenchmarkEvaluation([benchmark], Sampling(**sampling), judge)(Draw(), str(folder), 80, 4)
    return read_evaluations(folder / "benchmarks/step-80")


def test_runs_with_the_same_model_at_their_start_are_two_runs(tmp_path):
    for seed in (0, 1):
        for temperature in (0.5, 1.0):
            run(tmp_path / str(seed) / str(temperature), temperature=temperature, seed=seed)
    folders = [[str(tmp_path / seed / name / "benchmarks/step-80") for name in ("0.5", "1.0")] for seed in "01"]
    assert len(_read_runs([folder for pair in folders for folder in pair])) == 4


JUDGES = [has_one, is_long, partial(is_long, length=5), Above(3), Above(4), closure(3), closure(4)]
JUDGES += [MathReward(), MathReward(answer_format="either")]
OTHER = {"problems": {"rows": HARD}, "samples": {"samples": 3}, "sampling": {"temperature": 0.5}}
OTHER |= {f"judge {i}": {"judge": judge} for i, judge in enumerate(JUDGES[1:])}


@pytest.mark.parametrize("name", OTHER)
def test_other_questions_are_not_compared(tmp_path, name):
    here, there = run(tmp_path / "a"), run(tmp_path / "b", **OTHER[name])
    with pytest.raises(InvalidValueError):
        compare_samplings([here], [there])
    (row,) = compare_runs([RunEvaluations({"benchmarks": one}, 80) for one in (here, there)])
    assert "refused" in row


@pytest.mark.parametrize("judge", JUDGES[:7], ids=range(7))
def test_the_same_questions_are_compared(tmp_path, judge):
    here, there = run(tmp_path / "a", judge=judge), run(tmp_path / "b", judge=judge, seed=5)
    assert compare_samplings([here], [there])[""]["sums"]


def test_every_judge_has_a_name_of_its_own():
    names = [json.dumps(describe_judge(judge)) for judge in JUDGES]
    assert len(set(names)) == len(names)
    assert json.dumps(describe_judge(closure(3))) == names[5]
    assert describe_judge(has_one) == {"judge": f"{has_one.__module__}.has_one"}
