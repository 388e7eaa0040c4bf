"""What the report makes of a folder: of every kind of run, and of whatever else lies there."""

import json
import random
from itertools import pairwise
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.run_folders import SCRIPT, completion, write_held, write_hostile, write_run, write_state

from steer_trl import runlog
from steer_trl.report.data import differences, groups_of, page_data, thinned
from steer_trl.report.methods import sentences_about
from steer_trl.report.read import NoRun, find_runs
from steer_trl.report.tokens import LONGEST, ROOM, looks_of
from steer_trl.shaping.methods import SHAPERS


def one(folder):
    (run,) = find_runs([folder])
    return run


def test_a_run_of_this_package(tmp_path):
    run = one(write_run(tmp_path / "run"))
    assert (run.name, run.last_step, run.max_steps, run.is_finished, run.notes) == ("run", 60, 60, True, [])
    assert list(run.curves["reward"]) == list(range(1, 61)) and run.curves["reward"][30] == 0.5
    assert [step for step, _ in run.looks] == [1, 30, 60]
    data = page_data([run])
    assert data["runs"][0]["status"] == "finished"
    group = data["runs"][0]["looks"][0]["groups"][1]
    assert group["prompt"] == "prompt 1" and len(group["completions"]) == 4
    drawn = {line["key"] for panel in data["panels"] for line in panel["lines"]}
    assert {"entropy", "eval_sums_pass@4", "quadrants/positive_expected"} <= drawn


def test_a_run_that_goes_on_is_shown_so_far(tmp_path):
    folder = write_run(tmp_path / "run", steps=10, looks=())
    path = folder / "_logs/metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]) + '{"step": 6, "rewa')
    run = one(folder)
    assert (run.last_step, run.is_finished) == (5, False)
    assert run.notes == ["1 line(s) of metrics.jsonl could not be read."]
    assert page_data([run])["runs"][0]["status"] == "running"


@pytest.mark.parametrize("where", ["", "checkpoint-4"])
def test_a_run_of_plain_trl(tmp_path, where):
    write_state(tmp_path / "run" / where, 4)
    write_state(tmp_path / "run/checkpoint-2", 2)
    (tmp_path / "run/checkpoint-9").mkdir()  # saved by half
    run = one(tmp_path / "run")
    assert run.curves["entropy"] == {1: 1, 2: 1 / 2, 3: 1 / 3, 4: 1 / 4}
    assert (run.max_steps, run.description, run.looks) == (100, {}, [])
    assert page_data([run])["runs"][0]["status"] == ""  # such a log has no times


def test_what_comes_before_the_run_log_is_read_from_the_checkpoint(tmp_path):
    write_state(tmp_path / "checkpoint-4", 4)
    for step in (4, 5):
        runlog.append(tmp_path, {"step": step, "entropy": 9.0})
    run = one(tmp_path)
    assert run.curves["entropy"] == {1: 1, 2: 1 / 2, 3: 1 / 3, 4: 9, 5: 9}
    assert run.notes == ["The log up to step 3 is that of checkpoint-4/trainer_state.json."]


def test_a_folder_of_runs_and_equal_names(tmp_path):
    for name in ("a/run", "b/run", "b/other"):
        write_run(tmp_path / name, steps=3, looks=())
    assert [run.name for run in find_runs([tmp_path / "a", tmp_path / "b"])] == ["a/run", "other", "b/run"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "is not a folder"),
        (lambda folder: folder.mkdir(), "has no log: neither _logs/metrics.jsonl nor a trainer_state.json"),
        (lambda folder: folder.write_text("x"), "is not a folder"),
        (lambda folder: runlog.append(folder, {"step": 1}), "has a log without a single number in it"),
        (lambda folder: write_state(folder, 1, "none"), "has a log without a single number in it"),
    ],
    ids=["nothing", "empty", "file", "no number", "no list"],
)
def test_what_is_no_run_is_refused_in_one_line(tmp_path, make, message):
    make(tmp_path / "run")
    with pytest.raises(NoRun, match=message) as refusal:
        find_runs([tmp_path / "run"])
    assert "\n" not in str(refusal.value)


def test_a_hostile_folder_is_read_as_far_as_it_can_be(tmp_path):
    run = one(write_hostile(tmp_path / "run"))
    assert run.last_step == 22 and run.curves["reward"][22] == 0.5 and 21 not in run.curves["reward"]
    data = page_data([run])
    json.dumps(data, allow_nan=False)
    (look,) = data["runs"][0]["looks"]
    assert look["groups"][0]["completions"][0]["texts"][0] == SCRIPT == look["groups"][0]["prompt"]
    assert any("could not be read" in note for note in data["runs"][0]["notes"])


@pytest.mark.parametrize(("runs", "shown"), [(1, 20), (5, 4), (40, 2)])
def test_looks_are_spread_over_the_run_and_share_the_page(tmp_path, runs, shown):
    run = one(write_run(tmp_path / "run", steps=50, looks=range(1, 51)))
    steps = [look["step"] for look in looks_of(run, runs)]
    assert steps[0] == 1 and steps[-1] == 50 and len(steps) == shown
    assert max(b - a for a, b in pairwise(steps)) <= 50 / (shown - 1) + 1
    assert run.notes == [f"{shown} of 50 looks at tokens are shown, spread over the run."]


def test_a_look_at_long_completions_shows_as_many_as_have_room_and_of_each_its_beginning(tmp_path):
    folder = write_run(tmp_path / "run", looks=())
    for place in range(32):
        line = completion(1, place, random.Random(0), texts=["word "] * 1024) | {"group": place // 16}
        runlog.append(folder, line, "tokens/step-00000001.jsonl")
    (look,) = looks_of(one(folder), 1)
    (group,) = look["groups"]
    sizes = {(len(c["texts"]), len(c["weight"]), c["tokens"]) for c in group["completions"]}
    assert look["more"] and len(group["completions"]) == ROOM // LONGEST and sizes == {(LONGEST, LONGEST, 1024)}


@pytest.mark.parametrize("garbage", ["NaN", "-1", '"soon"', "[5]", '{"a": NaN}', "1e999", "9" * 400])
@pytest.mark.parametrize(
    "field", ["methods", "model", "versions", "code", "started", "resumed", "max_steps", "settings"]
)
def test_garbage_in_run_json_is_left_out(tmp_path, field, garbage):
    folder = write_run(tmp_path / "run", steps=3, looks=())
    (folder / "_logs/run.json").write_text(f'{{"methods": ["stare"], "{field}": {garbage}}}')
    json.dumps(page_data([one(folder)]), allow_nan=False)


def test_seeds_are_put_together_and_settings_that_differ_are_named(tmp_path):
    folders = [write_run(tmp_path / f"grpo_seed{seed}", 9, seed, "none") for seed in (0, 1)]
    folders.append(write_run(tmp_path / "stare", 6, 0, "stare", stare_amplify=1.5))
    write_state(tmp_path / "plain", 4)
    runs = find_runs([*folders, tmp_path / "plain"])
    assert groups_of(runs) == [[0, 1], [2], [3]]
    data = page_data(runs)
    group = data["groups"][0]
    steps, mean, low, high = group["curves"]["entropy"]
    assert group["name"] == "grpo (2 seeds)" and steps == list(range(1, 10))
    values = [[run.curves["entropy"][step] for run in runs[:2]] for step in steps]
    for curve, of_both in ((mean, fmean), (low, min), (high, max)):
        assert curve == pytest.approx(list(map(of_both, values)), rel=1e-4)
    different = differences(runs)["different"]
    assert different["stare_amplify"] == ["default", "default", "1.5", "default"]
    assert different["seed"] == ["0", "1", "0", "default"] and "output_dir" not in different


def test_a_default_is_shown_with_its_value_where_a_run_knows_it(tmp_path):
    held = write_held(tmp_path / "held")
    grpo = write_run(tmp_path / "grpo", method="none", looks=())
    path = grpo / "_logs/run.json"
    defaults = {"hold_entropy": None, "seed": 42, "learning_rate": 1e-6}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"defaults": defaults}))
    different = differences(find_runs([grpo, held]))["different"]
    assert different["hold_entropy"] == ["not set (default)", "0.5"] and different["seed"] == ["0", "42 (default)"]
    assert different["advantage_shaping"] == ["none", "repo_r"]


def test_methods_are_explained_by_the_first_sentence_of_their_files():
    about = sentences_about([*SHAPERS, "../../setup", "my.module:Mine"])
    assert about.keys() == SHAPERS.keys() and about["steer"].startswith("STEER, arXiv 2510.10150: damp the tokens")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000), st.integers(10, 200))
def test_thinning_keeps_the_ends_and_the_extremes(values, points):
    steps, kept = thinned(list(range(len(values))), [values], points)
    assert len(steps) <= points + 4 and steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, len(values) - 1)
    assert kept == [float(f"{values[step]:.6g}") for step in steps]
    assert max(kept) == float(f"{max(values):.6g}") and min(kept) == float(f"{min(values):.6g}")


def test_an_entropy_begins_at_its_first_value_and_everything_else_at_a_mean(tmp_path):
    (run,) = page_data([one(write_held(tmp_path / "run", steps=200))])["runs"]
    assert run["ends"]["rollout_entropy"] == pytest.approx([0.3, 0.147], rel=1e-3)
    runlog.append(tmp_path / "run", {"step": 201, "rollout_entropy/start": 0.3})
    path = tmp_path / "run/_logs/metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[50:]))  # as of a run that began elsewhere
    (run,) = page_data([one(tmp_path / "run")])["runs"]
    assert run["ends"]["rollout_entropy"][0] == 0.3 and run["ends"]["reward"][0] > 0.25


def test_parts_of_a_whole_have_the_same_steps_and_add_up(tmp_path):
    (run,) = page_data([one(write_held(tmp_path / "run", steps=2000))])["runs"]
    curves = [run["curves"][f"weights/{name}"] for name in ("under_0.5", "1", "over_2")]
    assert curves[0][0] == curves[1][0] == curves[2][0] and len(curves[0][0]) <= 404
    assert np.sum([values for _, values in curves], axis=0) == pytest.approx(1, abs=1e-5)


def counted(folder, counts, key="num_tokens", **others):
    for step, count in enumerate(counts, 1):
        runlog.append(folder, {"step": step, "entropy": 0.1, key: count} | others)
    return folder


def test_tokens_are_those_that_were_generated_where_all_runs_count_them(tmp_path):
    new, old = counted(tmp_path / "new", [20, 40], "generated_tokens", num_tokens=50), counted(tmp_path / "old", [50])
    assert "without prompts" in page_data([one(new)])["tokens"]
    data = page_data([one(new), one(old)])
    assert data["axes"]["runs"] == [[[0, 2], [0, 50]], [[0, 1], [0, 50]]] and "prompts and" in data["tokens"]
    runlog.append(tmp_path / "without", {"step": 1, "entropy": 0.1})
    data = page_data(find_runs([tmp_path]))
    assert data["tokens"] is None and data["axes"]["runs"] == []
    data = page_data([one(counted(tmp_path / "spread", [100, 100, 100, 100, 260, 260, 260, 260, 300]))])
    assert data["axes"]["runs"] == [[[0, 4, 8, 9], [0, 100, 260, 300]]]  # over the steps that train on a rollout


def test_seeds_together_lie_at_the_mean_of_their_paces_and_never_turn_back(tmp_path):
    for seed, counts in enumerate(([100, 200], [300])):
        folder = counted(tmp_path / f"run_{seed}", counts)
        (folder / "_logs/run.json").write_text(json.dumps({"settings": {"seed": seed}}))
    data = page_data(find_runs([tmp_path]))
    assert data["axes"]["groups"] == [[[0, 1, 2], [0, 200, 300]]]
