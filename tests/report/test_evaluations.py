"""Evaluations below runs: intervals on the curves, and the comparisons that `steer-trl compare` makes between runs."""

import json

import numpy as np
import pytest
from support.evaluations import SETTINGS, write_evaluation
from support.run_folders import write_run

from steer_trl.cli.compare import find_evaluation, main
from steer_trl.monitoring import run_files
from steer_trl.report.data import page_data
from steer_trl.report.evaluations import find_evaluations
from steer_trl.report.read import find_runs

SKILL = np.linspace(0.1, 0.8, 60)


def metrics(folder):
    return json.loads((folder / "summary.json").read_text())["benchmarks"]["a"]["metrics"]


def write_evaluated(folder, skill=SKILL, steps=(0, 20), seed=0, samplings=("",), **settings):
    write_run(folder, steps=20, seed=seed, token_steps=(), **settings)
    for step in steps:
        for name in samplings:
            temperature = 0.25 if name == "papers" else 1.0
            drawn = SETTINGS | {"step": step, "sampling": SETTINGS["sampling"] | {"temperature": temperature}}
            path = write_evaluation(folder / f"benchmarks/step-{step}" / name, skill, 7 * seed + step, drawn)
            prefix = f"eval_a_{name}".rstrip("_")
            logged = {f"{prefix}_{key}": mean for key, (mean, _) in metrics(path).items()}
            run_files.append(folder, {"step": step} | logged)
    return folder


def test_intervals_are_those_of_the_summary(tmp_path):
    folder = write_evaluated(tmp_path / "run", samplings=("papers", "t1"))
    (run,) = page_data(find_runs([folder]))["runs"]
    expected = [[step, *metrics(folder / f"benchmarks/step-{step}/t1")["avg@4"]] for step in (0, 20)]
    assert run["intervals"]["eval_a_t1_avg@4"] == expected


def test_an_earlier_runs_evaluation_does_not_count(tmp_path):
    folder = write_evaluated(tmp_path / "run")
    write_evaluation(folder / "benchmarks/step-40", SKILL / 2)
    found = find_evaluations(*find_runs([folder]))
    assert found.step == 20 and [step for step, *_ in found.intervals["eval_a_avg@4"]] == [0, 20]


def test_runs_are_compared_as_the_command_does(tmp_path):
    a = write_evaluated(tmp_path / "a", samplings=("papers", "t1"))
    b = write_evaluated(tmp_path / "b", SKILL + 0.15, seed=1, samplings=("papers", "t1"))
    main([*(str(run / "benchmarks/step-20") for run in (a, b)), "--json", str(tmp_path / "out.json")])
    expected = json.loads((tmp_path / "out.json").read_text())["comparisons"]
    expected = {(f"a {one['sampling']}", one["metric"]): one for one in expected}
    (pair,) = page_data(find_runs([tmp_path]))["comparisons"]
    assert (pair["name"], pair["steps"], pair["a"], pair["b"]) == ("benchmarks", [20, 20], 0, 1)
    rows = pair["main"] + pair["others"]
    # The temperature of the training comes first: t1, not papers.
    assert [(row["label"], row["metric"]) for row in pair["main"]] == [
        ("a t1", name) for name in ("pass@4", "avg@4", "distinct@4")
    ]
    assert len(rows) == 8
    for row in rows:
        one = expected[row["label"], row["metric"]]
        assert all(row[name] == one[name] for name in ("a", "b", "difference", "low", "high", "verdict"))
    assert "higher" in {row["verdict"] for row in rows}


def test_folders_of_one_name_are_compared(tmp_path):
    for name, shift in (("a", 0.0), ("b", 0.1), ("c", 0.2)):
        write_evaluation(write_run(tmp_path / name, steps=3, token_steps=()) / "_eval", SKILL + shift)
    write_evaluation(tmp_path / "a/_alone", SKILL)
    write_evaluated(tmp_path / "d")
    write_evaluated(tmp_path / "e")
    found = page_data(find_runs([tmp_path]))["comparisons"]
    assert [(pair["name"], pair["a"], pair["b"]) for pair in found] == [
        ("_eval", 0, 1),
        ("_eval", 0, 2),
        ("benchmarks", 3, 4),
    ]


def test_other_problems_are_not_compared(tmp_path):
    for name, skill in (("a", SKILL), ("b", SKILL[:50])):
        write_evaluation(write_run(tmp_path / name, steps=3, token_steps=()) / "_eval", skill)
    (pair,) = page_data(find_runs([tmp_path]))["comparisons"]
    assert "same problems" in pair["refused"] and "main" not in pair


@pytest.mark.parametrize("name", ["completions.jsonl", "summary.json", "settings.json"])
@pytest.mark.parametrize("kind", [None, "{", "[]", '{"benchmarks": 5}', '{"batch": 1}\n' * 9])
def test_an_unreadable_evaluation_does_no_harm(tmp_path, name, kind):
    for run in "abc":
        write_evaluation(write_evaluated(tmp_path / run) / "_eval", SKILL)
    for folder in ("benchmarks/step-20", "_eval"):
        path = tmp_path / "b" / folder / name
        path.unlink() if kind is None else path.write_text(kind)
    data = page_data(find_runs([tmp_path]))
    json.dumps(data, allow_nan=False)
    assert {pair["name"] for pair in data["comparisons"] if pair["b"] == 2 and pair["main"]} == {
        "_eval",
        "benchmarks",
    }


def begin_shorter(folder):
    """Begin a shorter run in the folder of a run that was evaluated at steps 0, 10 and 20."""
    run_files.begin(folder, 0, {})
    logged = {f"eval_a_{key}": mean for key, (mean, _) in metrics(folder / "benchmarks/step-10").items()}
    run_files.append(folder, {"step": 10, "entropy": 0.3} | logged)


def evaluate_on(folder):
    """Begin an evaluation at step 40, and do not finish it."""
    (write_evaluation(folder / "benchmarks/step-40", SKILL) / "summary.json").unlink()


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (evaluate_on, 20),
        (lambda folder: write_evaluation(folder / "benchmarks/step-40", SKILL), 20),
        (lambda folder: run_files.begin(folder, 10, {}), 10),  # resumed there
        (begin_shorter, 10),
        (lambda folder: write_evaluation(folder / "checkpoint-20/_eval", SKILL), 20),
        (lambda folder: write_evaluation(folder / "checkpoint-20", SKILL), 20),
    ],
    ids=["unfinished", "longer run", "resumed", "shorter run", "evaluated checkpoint", "checkpoint"],
)
def test_the_page_and_the_command_choose_the_same_evaluation(tmp_path, change, step):
    folder = write_evaluated(tmp_path / "run", steps=(0, 10, 20))
    change(folder)
    found = find_evaluations(*find_runs([folder]))
    assert found.by_folder.keys() == {"benchmarks"}
    assert found.step == step and found.by_folder["benchmarks"][""].folder == folder / f"benchmarks/step-{step}"
    assert find_evaluation(str(folder)) == str(folder / f"benchmarks/step-{step}")


@pytest.mark.parametrize("has_log", [True, False])
def test_a_run_whose_log_has_no_evaluation_is_refused(tmp_path, has_log):
    folder = write_run(tmp_path / "run", steps=3, token_steps=())
    write_evaluation(folder / "benchmarks/step-40", SKILL)
    if not has_log:
        (folder / "_logs/metrics.jsonl").unlink()
    with pytest.raises(ValueError, match=r"run.*benchmarks/step-40"):
        find_evaluation(str(folder))


def write_swept(folder, seed=0, temperatures=(1.5, 0.5), skill=SKILL, samples=4, setting=None, **named):
    write_run(folder, steps=3, token_steps=(), seed=seed, **named)
    for temperature in temperatures:
        drawn = SETTINGS | {"sampling": {"temperature": temperature, "top_p": 1.0}} | (setting or {})
        drawn |= {"benchmarks": {"a": {"samples": samples}}, "model_name_or_path": str(folder)}
        write_evaluation(folder / f"_eval/t{temperature:g}", skill / (1 + temperature), seed, drawn, samples=samples)
    write_evaluation(folder / "_eval/papers", SKILL, seed)
    return folder


@pytest.mark.parametrize(
    "other",
    [
        {"samples": 2},
        {"skill": SKILL[:50]},
        {"setting": {"judge": "my.judge"}},
        {"setting": {"answer_format": "either"}},
        {"temperatures": (0.5, 1.0, 1.5)},
    ],
    ids=lambda other: "-".join(other),
)
def test_sweeps_that_the_command_refuses_are_drawn_apart(tmp_path, other):
    a, b = write_swept(tmp_path / "a"), write_swept(tmp_path / "b", **other)
    write_swept(tmp_path / "c", seed=1)
    write_swept(tmp_path / "d", seed=1, **other)
    first, second = page_data(find_runs([tmp_path]))["frontiers"]
    assert [curve["run"] for curve in first["curves"]] == [0, 2] and first["apart"] is None
    assert [curve["run"] for curve in second["curves"]] == [1, 3] and second["apart"]["run"] == 0
    with pytest.raises(ValueError, match="frontier") as refused:
        main(["--frontier", str(a / "_eval"), str(b / "_eval")])
    assert second["apart"]["why"].removesuffix(" [...]") in str(refused.value)
    for picture in (first, second):
        points = [point for curve in picture["curves"] for point in curve["points"]]
        assert picture["tries"] and all({*map(str, picture["tries"])} <= point["solved"].keys() for point in points)


def test_a_sweep_that_was_drawn_in_two_ways_is_not_drawn(tmp_path):
    write_swept(tmp_path / "a")
    b = write_swept(tmp_path / "b")
    drawn = SETTINGS | {"sampling": {"temperature": 1.0, "top_p": 1.0}, "benchmarks": {"a": {"samples": 2}}}
    write_evaluation(b / "_eval/t1", SKILL, settings=drawn, samples=2)
    refused, drawn = page_data(find_runs([tmp_path]))["frontiers"]
    assert (refused["curves"], refused["apart"]["run"]) == ([], 1) and "samples" in refused["apart"]["why"]
    assert [curve["run"] for curve in drawn["curves"]] == [0]


def test_a_sweep_has_a_point_for_each_temperature(tmp_path):
    folder = write_swept(tmp_path / "a")
    write_swept(tmp_path / "b", temperatures=(1.0,))
    torn = write_swept(tmp_path / "c")
    (torn / "_eval/t0.5/settings.json").write_text('{"sampling": 3}')
    (picture,) = page_data(find_runs([tmp_path]))["frontiers"]
    (curve,) = picture["curves"]
    assert (picture["name"], picture["benchmark"], curve["run"]) == ("_eval", "a", 0)
    for point, temperature in zip(curve["points"], (0.5, 1.5), strict=True):
        means = {key: mean for key, (mean, _) in metrics(folder / f"_eval/t{temperature}").items()}
        expected = {"1": means["avg@4"], "2": means["pass@2"], "4": means["pass@4"]}
        assert point["temperature"] == temperature and point["solved"] == pytest.approx(expected)
