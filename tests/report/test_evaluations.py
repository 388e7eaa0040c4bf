"""Evaluations below runs: their intervals on the curves, and the table of `steer-trl compare` between runs."""

import json

import numpy as np
import pytest
from support.evaluations import SETTINGS, write_evaluation
from support.run_folders import write_run

from steer_trl import runlog
from steer_trl.cli.compare import main
from steer_trl.report.data import page_data
from steer_trl.report.evaluations import evaluated
from steer_trl.report.read import find_runs

SKILL = np.linspace(0.1, 0.8, 60)


def metrics(folder):
    return json.loads((folder / "summary.json").read_text())["benchmarks"]["a"]["metrics"]


def write_evaluated(folder, skill=SKILL, steps=(0, 20), seed=0, samplings=("",), **settings):
    write_run(folder, steps=20, seed=seed, looks=(), **settings)
    for step in steps:
        for name in samplings:
            drawn = SETTINGS | {"step": step}
            path = write_evaluation(folder / f"benchmarks/step-{step}" / name, skill, 7 * seed + step, drawn)
            prefix = f"eval_a_{name}".rstrip("_")
            logged = {f"{prefix}_{key}": mean for key, (mean, _) in metrics(path).items()}
            runlog.append(folder, {"step": step} | logged)
    return folder


def test_points_of_an_evaluation_have_the_intervals_of_its_summary(tmp_path):
    folder = write_evaluated(tmp_path / "run", samplings=("papers", "t1"))
    (run,) = page_data(find_runs([folder]))["runs"]
    steps, means, halves = run["intervals"]["eval_a_t1_avg@4"]
    expected = [metrics(folder / f"benchmarks/step-{step}/t1")["avg@4"] for step in (0, 20)]
    assert steps == [0, 20]
    assert list(zip(means, halves, strict=True)) == [pytest.approx(pair, rel=1e-5) for pair in expected]


def test_an_evaluation_of_an_earlier_run_in_the_folder_is_not_this_runs(tmp_path):
    folder = write_evaluated(tmp_path / "run")
    write_evaluation(folder / "benchmarks/step-40", SKILL / 2)
    (run,) = find_runs([folder])
    found = evaluated(run)
    assert found.step == 20 and found.intervals["eval_a_avg@4"][0] == [0, 20]


def test_runs_are_compared_as_the_command_does(tmp_path):
    a = write_evaluated(tmp_path / "a", samplings=("papers", "t1"), note="a")
    b = write_evaluated(tmp_path / "b", SKILL + 0.15, seed=1, samplings=("papers", "t1"), note="b")
    main([*(str(run / "benchmarks/step-20") for run in (a, b)), "--json", str(tmp_path / "out.json")])
    expected = json.loads((tmp_path / "out.json").read_text())["comparisons"]
    headlines = [one for one in expected if one["metric"] in ("avg@4", "pass@4", "maj@4", "distinct@4")]
    (table,) = page_data(find_runs([tmp_path]))["comparisons"]
    assert (table["name"], table["steps"]) == ("benchmarks", {"0": [20], "1": [20]})
    (pair,) = table["pairs"]
    assert (pair["a"], pair["b"]) == (0, 1) and "paired" in pair["about"]
    assert [row.pop("label") for row in pair["rows"]] == ["a papers"] * 4 + ["a t1"] * 4
    for row, one in zip(pair["rows"], headlines, strict=True):
        assert row == {name: value for name, value in one.items() if name not in ("sampling", "benchmark")}
    assert ("avg@4", "higher") in {(row["metric"], row["verdict"]) for row in pair["rows"]}


def test_seeds_of_one_setting_are_a_side(tmp_path):
    for seed in range(3):
        write_evaluated(tmp_path / f"plain_{seed}", seed=seed, method="none")
        write_evaluated(tmp_path / f"stare_{seed}", SKILL + 0.1, seed=3 + seed)
    write_run(tmp_path / "zero", steps=3, looks=(), note="another")
    (table,) = page_data(find_runs([tmp_path]))["comparisons"]
    (pair,) = table["pairs"]
    assert (pair["a"], pair["b"]) == (0, 1) and table["steps"] == {"0": [20], "1": [20]}
    assert pair["rows"][0]["seeds"] == [3, 3] and pair["rows"][0]["welch"] and "problems and seeds" in pair["about"]


def test_evaluations_of_the_command_below_runs_are_compared_by_the_name_of_their_folder(tmp_path):
    for name, shift in (("a", 0.0), ("b", 0.1), ("c", 0.2)):
        write_evaluation(write_run(tmp_path / name, steps=3, looks=(), note=name) / "_eval", SKILL + shift)
    write_evaluation(tmp_path / "a/_alone", SKILL)
    write_evaluated(tmp_path / "d", note="d"), write_evaluated(tmp_path / "e", note="e")
    table, in_training = page_data(find_runs([tmp_path]))["comparisons"]
    assert (table["name"], table["steps"], in_training["name"]) == ("_eval", {}, "benchmarks")
    assert [(pair["a"], pair["b"]) for pair in table["pairs"]] == [(0, 1), (0, 2)]


def test_what_is_no_comparison_says_why(tmp_path):
    for name, skill in (("a", SKILL), ("b", SKILL[:50])):
        write_evaluation(write_run(tmp_path / name, steps=3, looks=(), note=name) / "_eval", skill)
    ((pair,),) = [table["pairs"] for table in page_data(find_runs([tmp_path]))["comparisons"]]
    assert "must have answered the same problems of 'a'" in pair["refused"]


@pytest.mark.parametrize("name", ["completions.jsonl", "summary.json", "settings.json"])
@pytest.mark.parametrize("kind", [None, "{", "[]", '{"benchmarks": 5}', '{"batch": 1}\n' * 9])
def test_an_evaluation_that_cannot_be_read_does_no_harm(tmp_path, name, kind):
    for run in "abc":
        write_evaluation(write_evaluated(tmp_path / run, note=run) / "_eval", SKILL)
    for folder in ("benchmarks/step-20", "_eval"):
        path = tmp_path / "b" / folder / name
        path.unlink() if kind is None else path.write_text(kind)
    data = page_data(find_runs([tmp_path]))
    json.dumps(data, allow_nan=False)
    for table in data["comparisons"]:
        pairs = {pair["b"]: pair for pair in table["pairs"]}
        assert pairs[2]["rows"]


def write_swept(folder, seed=0, temperatures=(1.5, 0.5), **named):
    write_run(folder, steps=3, looks=(), seed=seed, **named)
    for temperature in temperatures:
        drawn = SETTINGS | {"sampling": {"temperature": temperature, "top_p": 1.0}}
        write_evaluation(folder / f"_eval/t{temperature:g}", SKILL / (1 + temperature), seed, drawn)
    write_evaluation(folder / "_eval/papers", SKILL, seed)
    return folder


def test_a_single_run_has_its_curve_and_the_best_temperatures(tmp_path):
    folder = write_swept(tmp_path / "run")
    (picture,) = page_data(find_runs([folder]))["frontiers"]
    (curve,) = picture["curves"]
    assert (picture["name"], picture["benchmark"], curve["group"], curve["k"]) == ("_eval", "a", 0, 4)
    cold, hot = ({key: mean for key, (mean, _) in metrics(folder / f"_eval/t{t}").items()} for t in (0.5, 1.5))
    for point, expected in zip(curve["points"], ((0.5, cold), (1.5, hot)), strict=True):
        assert point == pytest.approx([expected[0], expected[1]["avg@4"], expected[1]["pass@4"]], rel=1e-5)
    for row, k, name in zip(curve["best"], (1, 2, 4), ("avg@4", "pass@2", "pass@4"), strict=True):
        assert row == pytest.approx([k, 0.5, cold[name]], rel=1e-5)


def test_seeds_are_one_curve_and_runs_without_a_sweep_have_none(tmp_path):
    for seed in (0, 1):
        write_swept(tmp_path / f"held_{seed}", seed)
    write_swept(tmp_path / "other", note="other", temperatures=(1.0,))
    torn = write_swept(tmp_path / "torn", note="torn")
    (torn / "_eval/t0.5/settings.json").write_text('{"sampling": 3}')
    data = page_data(find_runs([tmp_path]))
    (picture,) = data["frontiers"]
    (curve,) = picture["curves"]
    assert data["groups"][curve["group"]]["name"] == "held (2 seeds)"
    both = [metrics(tmp_path / f"held_{seed}/_eval/t0.5")["avg@4"][0] for seed in (0, 1)]
    assert curve["points"][0][1] == pytest.approx(np.mean(both), rel=1e-5)
