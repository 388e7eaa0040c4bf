"""Curves with fewer points than entries: means, ends and the axis of tokens are still those of all entries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.run_folders import write_held

from steer_trl.report.read import Run, find_runs
from steer_trl.report.thinning import choose_points, describe_curves, describe_token_axes

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000)
COARSE = "dynamic_sampling/tokens_per_trained_token"


def described(values, key="reward"):
    return describe_curves(Run("run", None, curves={key: dict(enumerate(values))}))


@given(NUMBERS, st.integers(10, 200))
def test_thinning_keeps_the_ends_and_the_extremes(values, points):
    kept = choose_points(values, points)
    assert len(kept) <= points + 4 and kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    drawn = [values[i] for i in kept]
    assert max(drawn) == max(values) and min(drawn) == min(values)


@given(NUMBERS)
def test_means_and_ends_are_of_all_entries(values):
    found = described(values)
    steps, drawn = found["curves"]["reward"]
    assert drawn == pytest.approx([values[step] for step in steps], rel=1e-5)
    for level, share in (("smooth", 0.04), ("smoother", 0.15)):
        width = round(share * len(values))
        shown = found["means"]["reward"].get(level, drawn)
        expected = [np.mean(values[max(0, step - max(width, 1) + 1) : step + 1]) for step in steps]
        assert shown == pytest.approx(expected, rel=1e-5, abs=1e-3)
    count = min(10, max(1, len(values) // 10))
    ends = [np.mean(values[:count]), np.mean(values[-count:])]
    assert found["ends"]["reward"] == pytest.approx(ends, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("entries", [390, 1000, 3000])
def test_a_skewed_noise_has_the_same_mean_in_a_long_run(entries):
    """The mean of the lowest and the highest of some entries is far above the mean of all."""
    values = np.random.default_rng(0).exponential(0.1, entries)
    for mean in described(values)["means"]["reward"].values():
        # The first means are of few entries.
        assert np.mean(mean[len(mean) // 5 :]) == pytest.approx(0.1, abs=4 * 0.1 / np.sqrt(0.8 * entries))


def test_a_coarse_curve_has_a_mean_at_every_level():
    values = np.random.default_rng(0).integers(1, 9, 1000)
    found = described(values, COARSE)
    steps, _ = found["curves"][COARSE]
    expected = [np.mean(values[max(0, step - 199) : step + 1]) for step in steps]
    levels = found["means"][COARSE]
    assert list(levels) == ["as logged", "smooth", "smoother"]
    assert all(mean == pytest.approx(expected, rel=1e-5) for mean in levels.values())


def test_parts_of_a_whole_have_the_same_steps(tmp_path):
    (run,) = find_runs([write_held(tmp_path / "run", steps=2000)])
    found = describe_curves(run)
    keys = [f"weights/{name}" for name in ("under_0.5", "1", "over_2")]
    curves = [found["curves"][key] for key in keys]
    assert curves[0][0] == curves[1][0] == curves[2][0] and len(curves[0][0]) <= 404
    assert np.sum([values for _, values in curves], axis=0) == pytest.approx(1, abs=1e-5)
    for level in ("smooth", "smoother"):
        assert np.sum([found["means"][key][level] for key in keys], axis=0) == pytest.approx(1, abs=1e-5)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=300))
def test_tokens_are_those_at_the_last_step_of_a_rollout(rollouts):
    """Each rollout has a number of steps and of tokens."""
    counts, last_steps = [], {0: 0}
    for steps, tokens in rollouts:
        count = (counts[-1] if counts else 0) + tokens
        counts += [count] * steps
        last_steps[count] = len(counts)
    axes = describe_token_axes(Run("run", None, curves={"num_tokens": dict(enumerate(counts, 1))}))
    steps, shown = axes["num_tokens"]
    assert axes.keys() == {"num_tokens"} and [last_steps[count] for count in shown] == steps
    assert (shown[0], steps[-1]) == (0, len(counts)) and shown == sorted(set(shown))
