"""The frontier: against enumeration, on cases by hand, and how often its intervals cover what is known."""

import numpy as np
import pytest

from steer_trl.evaluation.frontier import Sides, Sweep, compare_best, pick_best_temperature


def sweep(correct, samples, temperatures=None):
    correct = np.asarray(correct)
    return Sweep(temperatures or tuple(range(1, len(correct) + 1)), correct, samples)


def test_a_validation_set_chooses_for_all_problems():
    values, choosing = np.arange(12.0).reshape(3, 1, 4), np.array([[[0.1, 0.2]], [[0.5, 0.1]], [[0.1, 0.3]]])
    assert np.array_equal(pick_best_temperature(values, choosing), values[1])


def test_each_half_is_compared_at_the_temperature_that_the_other_half_chose():
    """Problems of two kinds: of the half that chooses most decides. By an independent loop over the same halves."""
    rng = np.random.default_rng(3)
    values, halves = rng.uniform(size=(4, 2, 11)), np.random.default_rng(0)
    total = np.zeros((2, 11))
    for _ in range(20):
        first = set(halves.permutation(11)[:5].tolist())
        for judged in (first, set(range(11)) - first):
            others = sorted(set(range(11)) - judged)
            best = max(range(4), key=lambda t: sum(values[t, r, p] for r in range(2) for p in others))
            for r in range(2):
                for p in judged:
                    total[r, p] += values[best, r, p] / 20
    assert pick_best_temperature(values) == pytest.approx(total)


def test_f_is_the_mean_over_k():
    rng = np.random.default_rng(5)
    a, b = (sweep(rng.integers(0, 9, (3, 2, 30)), 8) for _ in range(2))
    rows = compare_best(Sides(a, b))
    assert [row.about["k"] for row in rows] == [1, 2, 4, 8, "mean"]
    assert rows[-1].difference.difference == pytest.approx(np.mean([row.difference.difference for row in rows[:-1]]))
    assert rows[0].about["temperature_a"] == 1 + a.correct.mean((1, 2)).argmax()


# Coverage.

PAIRS = 400
# A share of 0.95 over 400 has a standard deviation of 0.011; Satterthwaite's degrees are on the safe side.
EXPECTED = (0.92, 0.99)
KNOWN, OTHERS = np.array([0.9, 0.7, 0.5]), np.array([0.002, 0.03, 0.06])
"""Chance of the 45 % of the problems that a model has learned, and of the others, at three temperatures."""


def drawn(rng, is_learned, shift, share):
    """Counts of runs that differ from the model by a shift `[R, 1]` in what it has learned and a share in the rest."""
    chances = [np.where(is_learned, known + shift, other * share) for known, other in zip(KNOWN, OTHERS, strict=True)]
    return sweep(rng.binomial(16, chances), 16)


def truth(k, shift=0.0, share=1.0):
    """pass@k at the three temperatures, hottest first."""
    return (0.45 * (1 - (1 - KNOWN - shift) ** k) + 0.55 * (1 - (1 - OTHERS * share) ** k))[::-1]


@pytest.mark.parametrize(
    ("runs", "paired"), [(1, False), (4, False), (4, True)], ids=["one run", "several runs", "pairs of runs"]
)
def test_intervals_cover_known_differences(runs, paired):
    """Over problems and runs, at the best temperature."""
    rng, b, spread = np.random.default_rng(0), (-0.06, 0.8), 0.02 * (runs > 1)
    best = truth(16, *b).max() - truth(16).max()
    covered = []
    for _ in range(PAIRS):
        is_learned, common = rng.random(300) < 0.45, paired * rng.normal(0, spread, (runs, 1))
        own = [common + mean + rng.normal(0, spread, (runs, 1)) for mean in (0, b[0])]
        sides = Sides(*(drawn(rng, is_learned, *one) for one in zip(own, (1, b[1]), strict=True)), paired)
        found = compare_best(sides)[-2].difference
        covered.append(found.low <= best <= found.high)
    assert EXPECTED[0] <= np.mean(covered) <= EXPECTED[1]
