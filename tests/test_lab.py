"""Runs side by side: what shows how far they are, what is done again, and how a failure is reported."""

import io
import json

import pytest
import yaml
from lab import Experiment, verdicts
from lab.countdown import COUNTDOWN
from lab.results import COLUMNS, Result, packed
from lab.runs import SAMPLINGS, START, show
from tqdm import tqdm

from steer_trl import runlog
from steer_trl.evaluation.counts import counts_of, read_counts, values_of
from steer_trl.evaluation.folders import read_evaluations
from steer_trl.evaluation.summary import summarize


@pytest.mark.parametrize("counted", ["step", "generated_tokens"])
def test_the_time_left_of_a_run_begins_with_its_first_step(tmp_path, counted):
    """A quarter of an hour of loading and evaluating before it is no step; a torn line is none yet."""
    clock = 0.0
    log = tmp_path / runlog.LOGS / runlog.METRICS
    with tqdm(total=100, file=io.StringIO(), mininterval=0) as bar:
        bar._time = lambda: clock  # its clock, whatever the machine's
        bar.start_t = bar.last_print_t = clock
        show(bar, tmp_path, counted)  # there is no log yet
        for step in range(6):
            clock = 0.0 if step == 0 else 900.0 + 2 * step
            runlog.append(tmp_path, {"step": step, "generated_tokens": step or None, "entropy": 0.4})
            show(bar, tmp_path, counted)
        with log.open("a") as file:
            file.write('{"step": 50, "generated_tokens": 50')
        show(bar, tmp_path, counted)
        assert bar.n == 5 and bar.format_dict["rate"] == pytest.approx(0.5, rel=0.5)


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
            right = sample < count
            text = str(sample % kinds) if right else "no"
            verdict = {"correct": right, "answer": text, "vote": text, "timed_out": False, "truncated": False}
            place = {"batch": 0, "benchmark": "test", "id": str(problem), "sample": sample, "num_tokens": 3}
            yield place | verdict | {"completion": text}


def evaluation(folder, correct, distinct):
    for sampling in SAMPLINGS:
        own = folder / "_test" / sampling
        own.mkdir(parents=True)
        rows = [row for row in entries(correct, distinct) if sampling != "greedy" or row["sample"] == 0]
        (own / "completions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (own / "settings.json").write_text("{}")
        (own / "summary.json").write_text(json.dumps(summarize(rows)))
    return Result(folder)


def test_counts_hold_all_that_is_compared(tmp_path):
    evaluation(tmp_path, [0, 3, 16, 5], [1, 2, 4, 5])
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


def test_verdicts_in_words(tmp_path):
    """The intervals of the two means overlap by far: the problems differ more than the models."""
    skill = [number % 14 for number in range(56)]
    results = {
        START: evaluation(tmp_path / "start", skill, [1] * 56),
        "GRPO": evaluation(tmp_path / "grpo", skill, [1] * 56),
        "better": evaluation(
            tmp_path / "better", [count + 1 + number % 2 for number, count in enumerate(skill)], [1] * 56
        ),
        "level": evaluation(
            tmp_path / "level", [max(count + (-1) ** number, 0) for number, count in enumerate(skill)], [1] * 56
        ),
    }
    first, *lines = verdicts(results, "GRPO").splitlines()
    assert first == "Against GRPO, paired over the same problems, difference and 95 % interval:"
    assert lines[0].startswith("better: higher in accuracy T=1 +0.094 (+0.085 to +0.102), accuracy top-p 0.7 +0.094")
    assert any(line.startswith("level: not decided in accuracy T=1 ") for line in lines)
    assert verdicts(results, "GRPO", ["better"]).splitlines()[1:] == [line for line in lines if line.startswith("bet")]
