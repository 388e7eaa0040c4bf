"""The page of the papers' claims: what the published files say, and the opposite where they say the opposite."""

import copy
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from support import ROOT

NAMES = ("measured", "rules", "arms", "steer", "stare", "page", "pairs")
YES, NO, PART, OPEN = "**yes**", "**no**", "in part", "not decided"


@pytest.fixture(scope="module")
def claims():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "experiments/claims"))
        found = SimpleNamespace(**{name: __import__(name) for name in NAMES})
        found.data = found.measured.Data.read()
        yield found
        for name in NAMES:
            sys.modules.pop(name)


def verdicts(claims, **parts):
    """By row, with other data in the place of the published."""
    data = claims.data._replace(**parts)
    rows = claims.steer.claims(data) + claims.stare.claims(data)
    return {number: row.finding.verdict for number, row in enumerate(rows, 1)}


def test_the_page_is_that_of_the_stored_files(claims):
    assert (ROOT / "docs/claims.md").read_text() == claims.page.page(claims.data)


@pytest.mark.parametrize(
    ("kind", "mean", "half", "verdict"),
    [
        *(("more", *case) for case in [(0.1, 0.05, YES), (-0.1, 0.05, NO), (0.1, 0.2, OPEN), (0.001, 0.002, OPEN)]),
        *(("same", *case) for case in [(0.01, 0.013, YES), (0.01, 0.02, OPEN), (0.03, 0.02, NO), (-0.03, 0.02, NO)]),
        *(("matters", *case) for case in [(0.01, 0.013, NO), (0.01, 0.02, OPEN), (-0.03, 0.02, YES)]),
        *(("keeps", *case) for case in [(-0.1, 0.05, NO), (0, 0.02, YES), (0, 0.03, OPEN), (0.1, 0.05, YES)]),
        *(("falls", *case) for case in [(-0.1, 0.05, YES), (0, 0.02, NO), (0, 0.03, OPEN), (0.1, 0.05, NO)]),
    ],
)
def test_each_kind_of_statement_has_one_rule(claims, kind, mean, half, verdict):
    value = claims.measured.Estimate(mean, half, "3")
    values = ("", {"": value}) if kind in ("more", "same", "matters") else ({"": value},)
    found = getattr(claims.rules, kind)(*values)
    assert found.verdict == verdict and str(value) in found.text


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [((1, 1), YES), ((1, 0), PART), ((1, -1), PART), ((0, -1), NO), ((-1,), NO), ((0, 0), OPEN), ((), OPEN)],
)
def test_a_claims_parts_are_joined_by_one_rule(claims, parts, verdict):
    steps = [claims.measured.Estimate(part, 0.5, "3") for part in parts]
    assert claims.rules.Finding(parts, "").verdict == verdict
    assert not steps or claims.rules.order("", steps).verdict == verdict


def test_numbers_that_say_nothing_decide_nothing(claims):
    """A verdict that is written into the code would stay."""
    runs = copy.deepcopy(claims.data.short.runs)
    for run in runs:
        sign = (-1) ** run["seed"]
        for name in ("entropy", "reward"):
            run["rollouts"][name] = [value + sign * 9 * i**2 for i, value in enumerate(run["rollouts"][name])]
        run["solved"]["greedy"] += 9 * sign
        run["clipped"] |= {name: (name.endswith("_likely") + run["seed"]) % 2 for name in run["clipped"]}
    one_step, first = (
        {key: value._replace(half=1e9) for key, value in stored.items()}
        for stored in (claims.data.one_step, claims.data.first)
    )
    tools = copy.deepcopy(claims.data.tools)
    for (arm, seed), steps in tools.items():
        for key, values in steps.items():
            slope = (arm == "STARE") * (-1) ** seed * 9
            steps[key] = [value + slope * i for i, value in enumerate(values)]
    number = claims.measured.Estimate(0.1, 9.0, "9")
    protocol = SimpleNamespace(**dict.fromkeys(("difference", "trend", "over_starts"), lambda *_: number))
    parts = {"one_step": one_step, "first": first, "tools": tools, "protocol": protocol}
    found = verdicts(claims, short=claims.measured.ShortRuns(runs), **parts)
    assert {row: verdict for row, verdict in found.items() if verdict != OPEN} == {}


@pytest.mark.parametrize(
    ("arm", "row", "verdicts_of"),
    [("C2 fixed probability 0.1", 32, {0.2: YES, 0.5: NO}), ("O1 W 2.5", 27, {0.5: YES, 0.0: NO})],
)
def test_an_arm_that_solves_more_or_less_is_answered_otherwise(claims, arm, row, verdicts_of):
    for greedy, verdict in verdicts_of.items():
        rest = [run for run in claims.data.short.runs if run["arm"] != arm]
        moved = [run | {"solved": run["solved"] | {"greedy": greedy}} for run in claims.data.short.arms[arm]]
        assert verdicts(claims, short=claims.measured.ShortRuns([*rest, *moved]))[row] == verdict


def test_the_pooled_deviation_is_that_within_the_arms(claims):
    """Against the residuals of a regression on the arms; and one deviation fits all arms but C3."""
    short, end = claims.data.short, claims.measured.end
    names = sorted(short.arms)
    ends = np.array([end(run) for run in short.runs])
    design = np.array([[run["arm"] == name for name in names] for run in short.runs], dtype=float)
    _, residuals, rank, _ = np.linalg.lstsq(design, ends, rcond=None)
    freedom = len(ends) - rank
    assert short.spread(end) == (pytest.approx((residuals[0] / freedom) ** 0.5), freedom)
    half = stats.t.ppf(0.9875, freedom) * short.spread(end)[0] * (1 / 3 + 1 / 6) ** 0.5
    assert short.difference("PSR").half == pytest.approx(half) and short.difference("PSR").runs == "3+6"
    for measure in (end, claims.measured.trend, claims.measured.greedy):
        several = [list(map(measure, runs)) for arm, runs in short.arms.items() if len(runs) > 1 and arm[:2] != "C3"]
        assert stats.bartlett(*several).pvalue > 0.05
