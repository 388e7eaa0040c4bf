"""A diagnostic that fails on one of two ranks changes nothing but the log, which is of the other's tokens then."""

import pytest
from support.processes import TWO_PROCESSES

PREDICTED = {"entropy/predicted_change"}
PREDICTED |= {
    f"quadrants/{sign}_{kind}_change" for sign in ("positive", "negative") for kind in ("expected", "surprising")
}
PARTS = ("head", "statistics", "tokens")


@pytest.fixture(scope="module", params=["none", "steer"])
def results(request, run_cases):
    """Three steps, each with a token log: diagnostics that succeed, and that fail on rank 1."""
    case = {"fields": {"advantage_shaping": request.param, "log_tokens": 1}, "steps": 3}
    failing = [case | {"out_of_memory": part} for part in PARTS]
    return dict(zip(("nowhere", *PARTS), run_cases([case, *failing], TWO_PROCESSES), strict=True))


@pytest.mark.parametrize("part", PARTS)
def test_the_training_is_the_same(results, part):
    whole, partial = results["nowhere"], results[part]
    assert partial["update"] == whole["update"] and partial["losses"] == whole["losses"]


def test_the_log_lacks_one_rank_of_what_failed_and_nothing_else(results):
    for whole, partial in zip(results["nowhere"]["log"][:3], results["head"]["log"], strict=False):
        assert partial.keys() == whole.keys()
        differ = {key for key in whole if partial[key] != whole[key]}
        assert differ == PREDICTED


def test_a_log_of_which_one_rank_has_measured_nothing_has_the_same_keys(results):
    """The statistics of every micro-batch fail there, with those of the weights and of the tokens."""
    for whole, partial in zip(results["nowhere"]["log"][:3], results["statistics"]["log"], strict=False):
        assert partial.keys() == whole.keys()
        differ = {key for key in whole if partial[key] != whole[key]}
        measured = {key for key in whole if key.startswith(("quadrants/", "entropy/"))}
        assert measured - {"entropy/first_quarter"} <= differ  # completions begin alike


def test_a_look_at_tokens_that_fails_leaves_the_log_alone(results):
    for whole, partial in zip(results["nowhere"]["log"][:3], results["tokens"]["log"], strict=False):
        assert partial == whole
