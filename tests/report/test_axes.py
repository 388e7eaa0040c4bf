"""What curves are drawn over beside steps: tokens as TRL counts them, and hours of training."""

import json

import pytest
from support.run_folders import write_run, write_state

from steer_trl import runlog
from steer_trl.report.axes import axes_of, axes_of_seeds
from steer_trl.report.read import find_runs

START = 1_790_000_000.0


def timed(folder, seconds, tokens=None, resumed=(), started=START):
    """A run with an entry after each of `seconds` since its start."""
    for step, second in enumerate(seconds, 1):
        counts = {} if tokens is None else {"num_tokens": tokens[step - 1]}
        runlog.append(folder, {"step": step, "entropy": 0.1, "time": START + second} | counts)
    resumes = [{"step": step, "time": START + second} for step, second in resumed]
    (folder / "_logs/run.json").write_text(json.dumps({"started": started, "resumed": resumes}))
    (run,) = find_runs([folder])
    return axes_of(run)


def test_tokens_of_a_rollout_are_spread_over_the_steps_that_train_on_it(tmp_path):
    counts = [100, 100, 100, 100, 260, 260, 260, 260, 300]
    steps, tokens = timed(tmp_path, range(9), counts)["num_tokens"]
    assert (steps, tokens) == ([0, 4, 8, 9], [0, 100, 260, 300])


def test_what_is_generated_is_an_axis_beside_what_trl_counts(tmp_path):
    for step in (1, 2):
        runlog.append(
            tmp_path, {"step": step, "entropy": 0.1, "num_tokens": 50.0 * step, "generated_tokens": 20.0 * step}
        )
    axes = axes_of(*find_runs([tmp_path]))
    assert axes["generated_tokens"] == ([0, 1, 2], [0, 20, 40]) and axes["num_tokens"] == ([0, 1, 2], [0, 50, 100])


def test_hours_are_those_of_training_without_the_pause_before_a_resume(tmp_path):
    hour = 3600
    seconds = [hour, 2 * hour, 10 * hour, 11 * hour]
    axes = timed(tmp_path / "run", seconds, resumed=[(2, 9 * hour)])
    assert axes["hours"] == ([0, 1, 2, 3, 4], pytest.approx([0, 1, 2, 3, 4]))
    axes = timed(tmp_path / "whole", seconds)
    assert axes["hours"][1] == pytest.approx([0, 1, 2, 10, 11])


@pytest.mark.parametrize(("started", "expected"), [(None, [0, 1]), (START + 9e9, [0, 0, 1]), ("soon", [0, 1])])
def test_a_start_that_is_not_known_is_that_of_the_first_entry(tmp_path, started, expected):
    assert timed(tmp_path, [3600, 7200], started=started)["hours"][1] == pytest.approx(expected)


def test_what_a_log_lacks_is_no_axis(tmp_path):
    write_state(tmp_path / "plain", 4)  # neither times nor counts
    write_state(tmp_path / "counted/checkpoint-4", 4, [{"step": 4, "entropy": 0.1, "num_tokens": 80.0}])
    write_state(tmp_path / "late/checkpoint-3", 3)
    runlog.append(tmp_path / "late", {"step": 4, "entropy": 0.1})  # of a run that was plain up to step 3
    runs = find_runs([tmp_path / name for name in ("plain", "counted", "late")])
    assert [axes_of(run) for run in runs] == [{}, {"num_tokens": ([0, 4], [0, 80])}, {}]


def test_counts_and_times_that_fall_make_no_axis_that_does(tmp_path):
    axes = timed(tmp_path, [10, 5, 20, 20], [100, 50, -1e200, 200])
    for steps, places in axes.values():
        assert places == sorted(places) and steps == sorted(steps)
    assert axes["num_tokens"] == ([0, 3, 4], [0, 100, 200])


def test_seeds_together_lie_at_the_mean_of_their_paces_and_never_turn_back():
    slow, fast = ([0, 10, 20], [0.0, 100.0, 200.0]), ([0, 10], [0.0, 300.0])
    steps, tokens = axes_of_seeds([{"num_tokens": slow}, {"num_tokens": fast}])["num_tokens"]
    assert (steps, tokens) == ([0, 10, 20], [0, 200, 300])
    assert axes_of_seeds([{"num_tokens": slow}, {}]) == {}


def test_the_axes_of_the_usual_run(tmp_path):
    (run,) = find_runs([write_run(tmp_path / "run", steps=5, looks=())])
    assert set(axes_of(run)) == {"hours"}
