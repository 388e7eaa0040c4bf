"""The files of `_logs`: what is written comes back, and whatever else lies there does no harm."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.monitoring import run_files

numbers = st.floats() | st.integers(-(2**53), 2**53)
plain = st.none() | st.booleans() | numbers | st.text(max_size=20)
json_values = (
    plain | st.lists(plain, max_size=3) | st.dictionaries(st.text(max_size=9), st.lists(plain, max_size=2), max_size=2)
)


def metrics(folder):
    return list(run_files.lines(folder / "_logs/metrics.jsonl"))


@given(entry=st.dictionaries(st.text(max_size=9), json_values, max_size=4))
def test_every_line_is_json_that_any_reader_takes(tmp_path_factory, entry):
    folder = tmp_path_factory.mktemp("run")
    run_files.append(folder, {"step": 1} | entry)
    text = (folder / "_logs/metrics.jsonl").read_text(encoding="utf-8")
    assert text.count("\n") == 1
    json.loads(text, parse_constant=pytest.fail)  # NaN and Infinity are no JSON


def test_numbers_of_numpy_and_torch_become_json():
    values = {"a": np.float32(0.5), "b": torch.tensor(2), "c": np.float64(math.nan), "d": (math.inf, 1), "e": tuple}
    assert run_files.as_json(values) == {"a": 0.5, "b": 2, "c": None, "d": [None, 1], "e": "<class 'tuple'>"}


def test_lines_that_are_no_mappings_are_read_as_none(tmp_path):
    path = tmp_path / "metrics.jsonl"
    deep = "[" * 100_000
    path.write_bytes(f'{{"step": 1}}\n\n[1]\n{deep}\n\xff\xfe\n{{"step": 2}}\n{{"st'.encode("latin-1"))
    assert list(run_files.lines(path)) == [{"step": 1}, None, None, None, {"step": 2}, None]
    assert list(run_files.lines(tmp_path / "nowhere.jsonl")) == []


def test_a_resumed_run_drops_later_lines(tmp_path):
    run_files.begin(tmp_path, 0, {"settings": {"a": 1}})
    for step in (1, 2, 2, 3, 4):
        run_files.append(tmp_path, {"step": step})
        run_files.append(tmp_path, {"step": step, "alarm": "collapse"}, run_files.ALARMS)
    for step in (1, 3):
        run_files.append(tmp_path, {"step": step}, f"tokens/{run_files.token_path(tmp_path, step).name}")
    with (tmp_path / "_logs/metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "torn')
    run_files.begin(tmp_path, 2, {"settings": {"a": 2}})
    run_files.append(tmp_path, {"step": 3, "again": True})
    assert [entry["step"] for entry in metrics(tmp_path)] == [1, 2, 2, 3]
    assert [entry["step"] for entry in run_files.lines(tmp_path / "_logs/alarms.jsonl")] == [1, 2, 2]
    assert [step for step, _ in run_files.token_files(tmp_path / "_logs")] == [1]
    description = run_files.read_description(tmp_path / "_logs")
    assert description["settings"] == {"a": 2} and [one["step"] for one in description["resumed"]] == [2]
    assert description["started"] <= description["resumed"][0]["time"]


def test_a_new_run_moves_earlier_logs_aside(tmp_path):
    for number in range(3):
        run_files.begin(tmp_path, 0, {})
        run_files.append(tmp_path, {"step": 1, "number": number})
    assert [entry["number"] for entry in metrics(tmp_path)] == [2]
    aside = [json.loads((tmp_path / f"_logs.{n}/metrics.jsonl").read_text())["number"] for n in (1, 2)]
    assert aside == [0, 1]
