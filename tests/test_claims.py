"""The page of the papers' claims: what the published files say, and the opposite where they say the opposite."""

import copy
import sys
from statistics import mean
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from support import ROOT

NAMES = ("measured", "rules", "arms", "steer", "stare", "page", "pairs")
YES, NO, PART, OPEN = "**yes**", "**no**", "in part", "not decided"


@pytest.fixture(scope="module")
def claims():
    """The modules, and what they read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "experiments/claims"))
        found = SimpleNamespace(**{name: __import__(name) for name in NAMES})
        found.data = found.measured.Data.read()
        yield found
        for name in NAMES:
            sys.modules.pop(name)


def verdicts(claims, change=None, **parts):
    """By row, after a change of every short run and with other data in the place of the published."""
    data = claims.data._replace(**parts)
    if change:
        runs = copy.deepcopy(data.short.runs)
        for run in runs:
            change(run)
        data = data._replace(short=claims.measured.ShortRuns(runs))
    rows = claims.steer.claims(data) + claims.stare.claims(data)
    return {number: row.finding.verdict for number, row in enumerate(rows, 1)}


def protocol(claims, mean, half):
    """Runs of the protocol of which every number is this."""
    number = claims.measured.Estimate(mean, half, "9")
    return SimpleNamespace(**dict.fromkeys(("difference", "trend", "over_starts"), lambda *_: number))


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

    def scatter(run):
        sign = (-1) ** run["seed"]
        for name in ("entropy", "reward"):
            run["rollouts"][name] = [value + sign * 9 * i**2 for i, value in enumerate(run["rollouts"][name])]
        run["solved"]["greedy"] += 9 * sign
        run["clipped"] |= {name: (name.endswith("_likely") + run["seed"]) % 2 for name in run["clipped"]}

    stored = {
        name: {key: value._replace(half=1e9) for key, value in getattr(claims.data, name).items()}
        for name in ("one_step", "first")
    }
    tools = {
        (arm, seed): {
            key: [v + (arm == "STARE") * (-1) ** seed * 9 * i for i, v in enumerate(values)]
            for key, values in steps.items()
        }
        for (arm, seed), steps in claims.data.tools.items()
    }
    found = verdicts(claims, scatter, **stored, tools=tools, protocol=protocol(claims, 0.1, 9.0))
    assert {row: verdict for row, verdict in found.items() if verdict != OPEN} == {}


def test_trends_the_other_way_are_answered_the_other_way(claims):
    def mirror(run):
        entropy = run["rollouts"]["entropy"]
        run["rollouts"]["entropy"] = [2 * mean(entropy[:2]) - value for value in entropy]

    first = {
        key: value._replace(mean=-value.mean if "change" in key else 1) for key, value in claims.data.first.items()
    }
    now, then = verdicts(claims), verdicts(claims, mirror, first=first, protocol=protocol(claims, 0.5, 0.1))
    expected = {2: NO, 6: NO, 12: YES, 17: YES, 19: YES, 24: NO}
    assert {row: now[row] for row in expected} == expected
    assert {row: then[row] for row in expected} == {row: {YES: NO, NO: YES}[old] for row, old in expected.items()}


def test_effects_of_one_step_the_other_way_are_answered_the_other_way(claims):
    turned = {
        key: value._replace(mean=-value.mean) if "added change" in key or key[0] == "|" else value
        for key, value in claims.data.one_step.items()
    }
    now, then = verdicts(claims), verdicts(claims, one_step=turned)
    assert [now[row] for row in (8, 13, 14, 15, 21)] == [PART, YES, YES, PART, NO]
    assert [then[row] for row in (13, 14, 15, 21)] == [NO, NO, PART, YES]
    heavy = {key: value._replace(mean=0.9) for key, value in claims.data.one_step.items() if "weight" in key}
    assert now[7] == YES and verdicts(claims, one_step=claims.data.one_step | heavy)[7] == OPEN


@pytest.mark.parametrize(
    ("arm", "measure", "value", "row", "verdict"),
    [
        ("C2 gate, W 4 M 0.25", "greedy", 0.361, 26, OPEN),
        ("C2 adaptive", "greedy", 0.2, 31, NO),
        ("C2 fixed probability 0.1", "greedy", 0.2, 32, YES),
        ("C2 fixed probability 0.1", "greedy", 0.5, 32, NO),
        ("O1 W 2.5", "greedy", 0.5, 27, YES),
        ("O1 W 2.5", "greedy", 0.0, 27, NO),
        ("STEER 0.7", "greedy", 0.6, 5, PART),
        ("STEER 0.6", "entropy", 0.3, 4, PART),
        ("epsilon_high 1", "entropy", 0.3, 9, PART),
        ("epsilon 0.4", "entropy", 0.1, 10, YES),
        ("GTPO", "entropy", 0.1, 16, PART),
        ("entropy bonus 0.03", "entropy", 0.1961, 18, OPEN),
        ("C2 top 0.4", "entropy", 0.335, 29, PART),
    ],
)
def test_an_arm_that_ends_elsewhere_is_answered_otherwise(claims, arm, measure, value, row, verdict):
    def move(run):
        if run["arm"] == arm and measure == "greedy":
            run["solved"]["greedy"] = value
        elif run["arm"] == arm:
            run["rollouts"]["entropy"] = [value] * len(run["rollouts"]["entropy"])

    assert verdicts(claims, move)[row] == verdict


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
