"""Reading run folders: every kind of run, and whatever else lies in the folder."""

import json
import random
from itertools import pairwise

import pytest
from support.run_folders import SCRIPT, completion, write_hostile, write_run, write_state

from steer_trl.monitoring import run_files
from steer_trl.report.data import find_budget, page_data
from steer_trl.report.read import NoRun, find_runs
from steer_trl.report.tokens import LONGEST, ROOM, select_token_steps


def read_one(folder):
    (run,) = find_runs([folder])
    return run


def test_a_run_of_this_package(tmp_path):
    run = read_one(write_run(tmp_path / "run"))
    assert (run.name, run.last_step, run.max_steps, run.notes) == ("run", 60, 60, [])
    assert list(run.curves["reward"]) == list(range(1, 61)) and run.curves["reward"][30] == 0.5
    assert [step for step, _ in run.token_steps] == [1, 30, 60]
    data = page_data([run])
    assert data["runs"][0]["status"] == "finished"
    group = data["runs"][0]["token_steps"][0]["groups"][1]
    assert group["prompt"] == "prompt 1" and len(group["completions"]) == 4
    drawn = {line["key"] for panel in data["panels"] for line in panel["keys"]}
    assert {"entropy", "eval_sums_pass@4", "quadrants/positive_expected"} <= drawn
    assert data["panels"][0]["keys"][0]["key"] == "entropy"  # the first panel is the entropy's


def test_an_unfinished_run_is_shown_so_far(tmp_path):
    folder = write_run(tmp_path / "run", steps=10, token_steps=())
    path = folder / "_logs/metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]) + '{"step": 6, "rewa')
    run = read_one(folder)
    assert run.last_step == 5 and len(run.notes) == 1
    assert page_data([run])["runs"][0]["status"] == "running"


@pytest.mark.parametrize("where", ["", "checkpoint-4"])
def test_a_run_of_plain_trl(tmp_path, where):
    write_state(tmp_path / "run" / where, 4)
    write_state(tmp_path / "run/checkpoint-2", 2)
    (tmp_path / "run/checkpoint-9").mkdir()  # a save that was interrupted
    run = read_one(tmp_path / "run")
    assert run.curves["entropy"] == {1: 1, 2: 1 / 2, 3: 1 / 3, 4: 1 / 4}
    assert (run.max_steps, run.description, run.token_steps) == (100, {}, [])
    assert page_data([run])["runs"][0]["status"] == ""  # such a log has no times


def test_a_checkpoint_supplies_the_beginning_of_the_log(tmp_path):
    write_state(tmp_path / "checkpoint-4", 4)
    for step in (4, 5):
        run_files.append(tmp_path, {"step": step, "entropy": 9.0})
    run = read_one(tmp_path)
    assert run.curves["entropy"] == {1: 1, 2: 1 / 2, 3: 1 / 3, 4: 9, 5: 9}
    assert "step 3" in run.notes[0] and "checkpoint-4" in run.notes[0]


def test_a_folder_of_runs_and_equal_names(tmp_path):
    for name in ("a/run", "b/run", "b/other"):
        write_run(tmp_path / name, steps=3, token_steps=())
    assert [run.name for run in find_runs([tmp_path / "a", tmp_path / "b"])] == ["a/run", "other", "b/run"]


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: None,
        lambda folder: folder.mkdir(),
        lambda folder: folder.write_text("x"),
        lambda folder: run_files.append(folder, {"step": 1}),
    ],
    ids=["nothing", "empty", "file", "no number"],
)
def test_a_folder_without_a_log_is_refused(tmp_path, make):
    make(tmp_path / "run")
    with pytest.raises(NoRun, match="run") as refusal:
        find_runs([tmp_path / "run"])
    assert "\n" not in str(refusal.value)


def test_a_hostile_folder_is_read(tmp_path):
    run = read_one(write_hostile(tmp_path / "run"))
    assert run.last_step == 22 and run.curves["reward"][22] == 0.5 and 21 not in run.curves["reward"]
    data = page_data([run])
    json.dumps(data, allow_nan=False)
    (look,) = data["runs"][0]["token_steps"]
    assert look["groups"][0]["completions"][0]["texts"][0] == SCRIPT == look["groups"][0]["prompt"]
    assert len(data["runs"][0]["notes"]) >= 3


@pytest.mark.parametrize(
    ("entries", "about", "expected"),
    [
        ([{"step": 3}], {"max_steps": 12, "settings": {"max_steps": 12}}, ("steps", 3, 12)),
        (
            [{"step": 3, "epoch": 0.5}],
            {"max_steps": 12, "defaults": {"max_steps": -1, "num_train_epochs": 2.0}},
            ("epochs", 0.5, 2),
        ),
        (
            [{"step": 3, "generated_tokens": 90}],
            {"max_steps": 12, "settings": {"max_generated_tokens": 100}},
            ("tokens", 90, 100),
        ),
        (
            [{"step": 11, "generated_tokens": 20}],
            {"max_steps": 12, "settings": {"max_generated_tokens": 100}},
            ("steps", 11, 12),
        ),
        ([{"step": 3}], {}, None),
    ],
    ids=["steps", "epochs", "tokens", "steps before tokens", "unknown"],
)
def test_the_shown_budget_is_the_one_that_ends_the_run(tmp_path, entries, about, expected):
    run_files.begin(tmp_path, 0, about)
    for entry in entries:
        run_files.append(tmp_path, entry | {"entropy": 1.0})
    budget = find_budget(read_one(tmp_path))
    assert (budget and (budget["unit"], budget["used"], budget["size"])) == expected


@pytest.mark.parametrize(("runs", "shown"), [(1, 20), (5, 4), (40, 2)])
def test_looks_are_spread_over_the_run(tmp_path, runs, shown):
    run = read_one(write_run(tmp_path / "run", steps=50, token_steps=range(1, 51)))
    steps = [look["step"] for look in select_token_steps(run, runs)]
    assert steps[0] == 1 and steps[-1] == 50 and len(steps) == shown
    assert max(b - a for a, b in pairwise(steps)) <= 50 / (shown - 1) + 1
    assert f"{shown} of 50" in run.notes[0]


def test_a_look_at_long_completions_is_cut(tmp_path):
    folder = write_run(tmp_path / "run", token_steps=())
    for place in range(32):
        line = completion(1, place, random.Random(0), texts=["word "] * 1024) | {"group": place // 16}
        run_files.append(folder, line, "tokens/step-00000001.jsonl")
    (look,) = select_token_steps(read_one(folder), 1)
    (group,) = look["groups"]
    sizes = {(len(c["texts"]), len(c["weight"]), c["tokens"]) for c in group["completions"]}
    assert look["more"] and len(group["completions"]) == ROOM // LONGEST and sizes == {(LONGEST, LONGEST, 1024)}


def test_a_long_token_and_prompt_are_cut(tmp_path):
    """As a file of another program may hold, or a tokenizer of bytes that never ends a letter."""
    folder = write_run(tmp_path / "run", token_steps=())
    line = completion(1, 0, random.Random(0), texts=["short", "x" * 2_000_000, "z"])
    run_files.append(folder, line | {"prompt": "y" * 3_000_000}, "tokens/step-00000001.jsonl")
    (look,) = select_token_steps(read_one(folder), 1)
    (group,) = look["groups"]
    (shown,) = group["completions"]
    assert len(shown["texts"]) == 3 and shown["texts"][::2] == ["short", "z"] and shown["texts"][1].startswith("xxx")
    assert len(str(look)) < 20_000
