"""Paired comparison: against SciPy's own tests, and how often its interval covers a difference that is known."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from steer_trl.evaluation.comparison import compare_values

PAIRS = 1000
# A share of 0.95 over 1,000 pairs has a standard deviation of 0.007; three of them on either side.
EXPECTED = (0.93, 0.97)


def answers(rng, skill, samples, seeds=1, shift=0.0, seed_spread=0.0):
    """Shares of correct samples `[S, P]` of models that solve a problem with probability `skill` `[P]` and a shift."""
    shifts = shift + rng.normal(0, seed_spread, (seeds, 1))
    return rng.binomial(samples, np.clip(skill + shifts, 0, 1)) / samples


def coverage(make_pair, truth, paired=False):
    rng = np.random.default_rng(0)
    found = [compare_values(*make_pair(rng), paired=paired) for _ in range(PAIRS)]
    return np.mean([one.low <= truth <= one.high for one in found])


@pytest.mark.parametrize("samples", [1, 16], ids=["binary", "fractional"])
@pytest.mark.parametrize("correlated", [True, False], ids=["correlated", "uncorrelated"])
def test_one_model_each_covers_a_known_difference(samples, correlated):
    def pair(rng):
        skill = rng.uniform(0.2, 0.7, 300)
        other = skill if correlated else rng.uniform(0.2, 0.7, 300)
        return answers(rng, skill, samples), answers(rng, other, samples, shift=0.05)

    assert EXPECTED[0] <= coverage(pair, 0.05) <= EXPECTED[1]


@pytest.mark.parametrize("samples", [1, 16], ids=["binary", "fractional"])
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("seed_spread", [0.005, 0.05], ids=["seeds alike", "seeds apart"])
def test_several_seeds_cover_a_known_difference(samples, seeds, seed_spread):
    def pair(rng):
        skill = rng.uniform(0.25, 0.65, 300)
        spread = {"seeds": seeds, "seed_spread": seed_spread}
        return answers(rng, skill, samples, **spread), answers(rng, skill, samples, shift=0.05, **spread)

    # Satterthwaite's degrees are an approximation, on the safe side where one part rules.
    assert EXPECTED[0] <= coverage(pair, 0.05) <= 0.985


@pytest.mark.parametrize("own_spread", [0.005, 0.04], ids=["runs alike", "runs apart"])
def test_paired_intervals_cover_a_known_difference(own_spread):
    """The start moves both sides by much; what a run adds is its own."""
    widths = []

    def pair(rng):
        skill, common = rng.uniform(0.3, 0.6, 300), rng.normal(0, 0.08, (9, 1))
        sides = [common + shift + rng.normal(0, own_spread, (9, 1)) for shift in (0, 0.05)]
        a, b = (rng.binomial(16, np.clip(skill + side, 0, 1)) / 16 for side in sides)
        paired, unpaired = compare_values(a, b, paired=True), compare_values(a, b)
        widths.append((paired.high - paired.low) / (unpaired.high - unpaired.low))
        return a, b

    assert EXPECTED[0] <= coverage(pair, 0.05, paired=True) <= 0.985
    assert np.mean(widths) < 0.7


def test_paired_variance_is_a_two_way_analysis():
    """By the mean squares of Searle, Casella and McCulloch, of the table of differences."""
    rng = np.random.default_rng(5)
    a, b = rng.uniform(size=(2, 4, 30))
    b += rng.normal(0, 0.3, (4, 1)) + rng.normal(0, 0.5, 30)  # else a part alone is more than the sum less the rest
    d = b - a
    runs, problems = d.shape
    of_runs = problems * ((d.mean(1) - d.mean()) ** 2).sum() / (runs - 1)
    of_problems = runs * ((d.mean(0) - d.mean()) ** 2).sum() / (problems - 1)
    rest = ((d - d.mean(0) - d.mean(1, keepdims=True) + d.mean()) ** 2).sum() / ((runs - 1) * (problems - 1))
    variance = (of_runs + of_problems - rest) / (runs * problems)
    degrees = variance**2 / ((of_runs / d.size) ** 2 / (runs - 1) + (of_problems / d.size) ** 2 / (problems - 1))
    found = compare_values(a, b, paired=True)
    assert (found.high - found.low) / 2 == pytest.approx(stats.t.ppf(0.975, degrees) * variance**0.5)


def test_one_model_each_is_the_paired_t_test():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(size=(2, 40))
    found, expected = compare_values([a], [b]), stats.ttest_rel(b, a)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.verdict != "not decided") == (expected.pvalue < 0.05)
    assert found.difference == pytest.approx(found.b - found.a) and found.problems == 40


@pytest.mark.parametrize(("shift", "verdict"), [(0.2, "higher"), (-0.2, "lower"), (0.0, "not decided")])
def test_the_verdict_follows_from_the_interval(shift, verdict):
    rng = np.random.default_rng(3)
    a = rng.uniform(size=(1, 200))
    found = compare_values(a, a + shift + rng.normal(0, 0.1, (1, 200)))
    same = compare_values(a, a)
    assert found.verdict == verdict and (same.low, same.high, same.p, same.verdict) == (0, 0, 1, "not decided")
    assert compare_values(a + shift, a).difference == pytest.approx(-shift)


@pytest.mark.parametrize("count", range(2, 11))
def test_equal_differences_are_decided_by_their_signs(count):
    """By all signs that the differences could have had; a few problems that are all solved decide nothing."""
    found = compare_values([[0.1] * count], [[0.4] * count])
    sums = np.abs([sum(signs) for signs in product((-1, 1), repeat=count)]) * 0.3 / count
    assert found.p == pytest.approx(np.mean(sums >= 0.3 - 1e-9))
    assert (found.verdict != "not decided") == (found.p < 0.05) == (count >= 6)
    half = (found.high - found.low) / 2
    assert np.mean(sums > half + 1e-9) <= 0.05 < np.mean(sums > half - 1e-9)
    several = compare_values([[0.1] * 30] * count, [[0.4] * 30] * count)  # as few models, with many problems
    assert (several.low, several.high, several.p) == pytest.approx((found.low, found.high, found.p))


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ([[1.0, 0.0]], [[1.0, 0.0, 1.0]], r"same problems, a row for each seed, got shapes \(1, 2\) and \(1, 3\)"),
        ([[1.0]], [[0.0]], "at least 2 problems"),
        ([[1.0, 0.0]], [[1.0, 0.0]] * 3, "one seed, or both several, got 1 and 3"),
    ],
)
def test_values_that_cannot_be_compared_are_refused(a, b, text):
    with pytest.raises(ValueError, match=text):
        compare_values(a, b)
