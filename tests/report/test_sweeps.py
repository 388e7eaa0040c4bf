"""Sweeps below runs, as the page has them."""

import json

import numpy as np
import pytest
from support.evaluations import SETTINGS, write_evaluation
from support.run_folders import write_run

from steer_trl.report.data import page_data
from steer_trl.report.read import find_runs

SKILL = np.linspace(0.1, 0.8, 60)


def write_swept(folder, seed=0, temperatures=(1.5, 0.5), **named):
    write_run(folder, steps=3, looks=(), seed=seed, **named)
    for temperature in temperatures:
        drawn = SETTINGS | {"sampling": {"temperature": temperature, "top_p": 1.0}}
        write_evaluation(folder / f"_eval/t{temperature:g}", SKILL / (1 + temperature), seed, drawn)
    write_evaluation(folder / "_eval/papers", SKILL, seed)
    return folder


def means(folder, metric):
    summary = json.loads((folder / "summary.json").read_text())
    return summary["benchmarks"]["a"]["metrics"][metric][0]


def test_a_single_run_has_its_curve_and_the_best_temperatures(tmp_path):
    folder = write_swept(tmp_path / "run")
    (picture,) = page_data(find_runs([folder]))["frontiers"]
    (curve,) = picture["curves"]
    assert (picture["name"], picture["benchmark"], curve["group"], curve["k"]) == ("_eval", "a", 0, 4)
    expected = [[t, *(means(folder / f"_eval/t{t:g}", name) for name in ("avg@4", "pass@4"))] for t in (0.5, 1.5)]
    assert curve["points"] == [pytest.approx(point, rel=1e-5) for point in expected]
    assert curve["best"] == [
        [k, 0.5, pytest.approx(means(folder / "_eval/t0.5", name), rel=1e-5)]
        for k, name in ((1, "avg@4"), (2, "pass@2"), (4, "pass@4"))
    ]


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
    both = [means(tmp_path / f"held_{seed}/_eval/t0.5", "avg@4") for seed in (0, 1)]
    assert curve["points"][0][1] == pytest.approx(np.mean(both), rel=1e-5)
