"""A diagnostic that fails on one of two ranks changes nothing but the log, which is of the other's tokens then."""

import pytest
from support.processes import TWO_PROCESSES

PREDICTED = {"entropy/predicted_change", "quadrants/positive_expected_change", "quadrants/positive_surprising_change"}
PREDICTED |= {"quadrants/negative_expected_change", "quadrants/negative_surprising_change"}
SAMPLED = {"sampled_as_scored", "sampled_as_scored/error"}
PARTS = ("head", "statistics", "tokens", "sampled")


@pytest.fixture(scope="module", params=["none", "steer"])
def results(request, run_cases):
    """Three steps, each with a token log: diagnostics that succeed, and that fail on rank 1."""
    case = {"fields": {"advantage_shaping": request.param, "log_tokens": 1}, "steps": 3}
    failing = [case | {"out_of_memory": part} for part in PARTS]
    return dict(zip(("nowhere", *PARTS), run_cases([case, *failing], TWO_PROCESSES), strict=True))


@pytest.mark.parametrize("part", PARTS)
def test_a_failed_look_costs_one_ranks_log(results, part):
    """The statistics of every micro-batch fail, with those of the weights and of the tokens; keys stay."""
    whole, partial = results["nowhere"], results[part]
    assert partial["update"] == whole["update"] and partial["losses"] == whole["losses"]
    for mine, theirs in zip(whole["log"][:3], partial["log"], strict=False):
        assert theirs.keys() == mine.keys()
        differ = {key for key in mine if theirs[key] != mine[key]}
        if part == "statistics":
            measured = {key for key in mine if key.startswith(("quadrants/", "entropy/"))}
            assert measured - {"entropy/first_quarter"} <= differ  # completions begin alike
        else:
            expected = {"head": PREDICTED, "sampled": SAMPLED}.get(part, set())
            assert differ == expected & mine.keys()
