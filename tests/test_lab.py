"""Runs side by side: what is done again, how a failure is reported, and what is counted."""

import json

import pytest
import yaml

from experiments.lab import Experiment
from experiments.lab.countdown import COUNTDOWN
from experiments.lab.results import COLUMNS, packed
from experiments.lab.runs import SAMPLINGS
from steer_trl.evaluation.counts import counts_of, read_counts, values_of
from steer_trl.evaluation.folders import read_evaluations
from steer_trl.evaluation.summary import summarize


def test_a_run_that_fails_says_why(tmp_path):
    experiment = Experiment(COUNTDOWN, tmp_path, num_problems=4)  # there is no start
    experiment.task.write_problems(tmp_path / "problems", 4)
    with pytest.raises(RuntimeError, match=r"(?s)GRPO failed.*/grpo/output\.txt .*Repo id must"):
        experiment.train("GRPO", {"max_steps": 1})


def test_a_run_is_done_when_it_was_evaluated_with_these_settings(tmp_path):
    experiment = Experiment(COUNTDOWN, tmp_path)
    folder = experiment.folder("GRPO, seed 0")
    assert folder.name == "grpo_seed_0"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(yaml.safe_dump(experiment.recipe("GRPO, seed 0", {"seed": 0})))
    assert not experiment.is_done("GRPO, seed 0", {"seed": 0})
    for sampling in SAMPLINGS:
        (folder / "_test" / sampling).mkdir(parents=True)
        (folder / "_test" / sampling / "summary.json").write_text("{}")
    assert experiment.is_done("GRPO, seed 0", {"seed": 0}) and not experiment.is_done("GRPO, seed 0", {"seed": 1})


def entries(correct, distinct):
    """Sixteen samples of each problem, of which so many are correct, and so many different ones."""
    for problem, (count, kinds) in enumerate(zip(correct, distinct, strict=True)):
        for sample in range(16):
            text = str(sample % kinds) if sample < count else "no"
            place = {"batch": 0, "benchmark": "test", "id": str(problem), "sample": sample, "num_tokens": 3}
            verdict = {"correct": sample < count, "timed_out": False, "truncated": False}
            yield place | verdict | dict.fromkeys(("answer", "vote", "completion"), text)


def test_counts_hold_all_that_is_compared(tmp_path):
    for sampling in SAMPLINGS:
        own = tmp_path / "_test" / sampling
        own.mkdir(parents=True)
        rows = [row for row in entries([0, 3, 16, 5], [1, 2, 4, 5]) if sampling != "greedy" or row["sample"] == 0]
        (own / "completions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (own / "settings.json").write_text("{}")
        (own / "summary.json").write_text(json.dumps(summarize(rows)))
    whole = read_evaluations(tmp_path / "_test")
    for name, one in whole.items():
        counts = counts_of(one.values)
        assert counts["test"]["correct"] == ([0, 1, 1, 1] if name == "greedy" else [0, 3, 16, 5])
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"evaluations": {"t": {"settings": {}, "benchmarks": packed(counts)}}}))
        assert json.loads(file.read_text())["evaluations"]["t"]["benchmarks"]["test"]["ids"] == ""
        again = values_of(read_counts(file)["t"]["counts"])
        assert again["test"] == {metric: one.values["test"][metric] for metric in again["test"]}
        assert {metric for sampling, metric in COLUMNS.values() if sampling == name} <= again["test"].keys()
    assert counts_of(whole["t1"].values)["test"]["distinct"] == [0, 2, 4, 5]
