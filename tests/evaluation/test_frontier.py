"""The frontier: against enumeration, on cases by hand, and how often its intervals cover what is known."""

from itertools import combinations

import numpy as np
import pytest
from support import ROOT

from steer_trl.evaluation import frontier
from steer_trl.evaluation.frontier import Sides, Sweep, at_best_temperature, compare_at_equal_accuracy, compare_best
from steer_trl.evaluation.sweeps import read_sides

COUNTDOWN = ROOT / "experiments/results/countdown"


def sweep(correct, samples, temperatures=None):
    correct = np.asarray(correct)
    return Sweep(temperatures or tuple(range(1, len(correct) + 1)), correct, samples)


def test_tries_of_a_fallback_are_enumerated():
    """Every choice of k - m of a model's samples and m of the other's; at each pair of temperatures."""
    own, other = sweep([[[0, 1, 3, 4]], [[2, 0, 1, 4]]], 4), sweep([[[2, 0, 1, 0]], [[5, 1, 0, 3]], [[1, 1, 1, 1]]], 5)
    assert own.tries == [1, 2, 4] and sweep(np.zeros((1, 1, 1)), 16).tries == [1, 2, 4, 8, 16]
    for k, m in ((2, 1), (4, 1), (4, 2), (4, 3)):
        found = own.solved_with(other, k, m).reshape(2, 3, 4)
        for t, s, p in np.ndindex(2, 3, 4):
            right, theirs = own.correct[t, 0, p], other.correct[s, 0, p]
            solved = [
                min(a) < right or min(b) < theirs
                for a in combinations(range(4), k - m)
                for b in combinations(range(5), m)
            ]
            assert found[t, s, p] == pytest.approx(np.mean(solved))


def test_a_validation_set_chooses_for_all_problems():
    values, choosing = np.arange(12.0).reshape(3, 1, 4), np.array([[[0.1, 0.2]], [[0.5, 0.1]], [[0.1, 0.3]]])
    assert np.array_equal(at_best_temperature(values, choosing), values[1])


def test_each_half_has_its_own_temperature():
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
    assert at_best_temperature(values) == pytest.approx(total)


def test_f_is_the_mean_over_k():
    rng = np.random.default_rng(5)
    a, b = (sweep(rng.integers(0, 9, (3, 2, 30)), 8) for _ in range(2))
    rows = compare_best(Sides(a, b))
    assert [row.about["k"] for row in rows] == [1, 2, 4, 8, "mean"]
    assert rows[-1].difference.difference == pytest.approx(np.mean([row.difference.difference for row in rows[:-1]]))
    assert rows[0].about["temperature_a"] == 1 + a.correct.mean((1, 2)).argmax()


def test_a_curve_is_interpolated_where_it_is_as_accurate():
    a = sweep([[[2, 2]], [[1, 1]]], 4)  # accuracy 1/2, then 1/4
    b = sweep([[[4, 1]], [[2, 1]], [[2, 0]]], 4)  # 5/8, 3/8, 1/4
    first, second = compare_at_equal_accuracy(Sides(a, b), 4)
    assert first.about == {"temperature_a": 1, "accuracy_a": 0.5, "reached": 1}
    assert first.difference.b == pytest.approx((b.solved(4)[0].mean() + b.solved(4)[1].mean()) / 2)
    assert second.difference.b == b.solved(4)[2].mean() and second.about["reached"] == 1


def test_a_run_that_is_nowhere_as_accurate_stays_at_its_most_accurate_point():
    a = sweep([[[4, 4], [2, 2]]], 4)
    b = sweep([[[1, 2], [1, 1]], [[2, 2], [2, 2]], [[0, 1], [0, 0]]], 4)
    (row,) = compare_at_equal_accuracy(Sides(a, b, paired=True), 4)
    assert row.about["reached"] == 1  # the second: 1/2 at its second temperature
    assert row.difference.b == b.solved(4)[1].mean() and row.difference.seeds == (2, 2)


def test_a_model_is_as_good_as_itself_at_equal_accuracy():
    rng = np.random.default_rng(6)
    skill = rng.uniform(0.05, 0.95, 100)
    one = sweep([rng.binomial(16, skill * share, (3, 100)) for share in (1, 0.8, 0.6)], 16)
    rows = compare_at_equal_accuracy(Sides(one, one, paired=True), 16)
    assert [row.about["reached"] for row in rows] == [3, 3, 3]
    assert [row.difference.difference for row in rows] == pytest.approx([0, 0, 0])


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
    """Over problems and runs, at the best temperature and at equal accuracy."""
    rng, b, spread = np.random.default_rng(0), (-0.06, 0.8), 0.02 * (runs > 1)
    best = truth(16, *b).max() - truth(16).max()
    equal = np.interp(truth(1)[1], truth(1, *b), truth(16, *b)) - truth(16)[1]
    covered = []
    for _ in range(PAIRS):
        is_learned, common = rng.random(300) < 0.45, paired * rng.normal(0, spread, (runs, 1))
        own = [common + mean + rng.normal(0, spread, (runs, 1)) for mean in (0, b[0])]
        sides = Sides(*(drawn(rng, is_learned, *one) for one in zip(own, (1, b[1]), strict=True)), paired)
        found = compare_best(sides)[-2].difference, compare_at_equal_accuracy(sides, 16)[1].difference
        covered.append([one.low <= known <= one.high for one, known in zip(found, (best, equal), strict=True)])
    assert all(EXPECTED[0] <= share <= EXPECTED[1] for share in np.mean(covered, axis=0))


# The first protocol's published files; the other numbers are on their page and from the command.


def test_the_published_runs_and_tries_of_their_starts():
    """Difference and half width in percentage points, where 2, 4 and 8 of 16 tries are those of the start."""
    folders = (COUNTDOWN, COUNTDOWN / "temperatures")  # temperature 1 is in the runs' own files
    a, b = (
        [str(file) for folder in folders for file in folder.glob(f"{arm}-start*.json")]
        for arm in ("grpo-dynamic-sampling", "constant-level")
    )
    sides = read_sides(a, b, fallback=[str(file) for file in COUNTDOWN.glob("start-start*.json")])["test"]
    assert sides.fallback_a.temperatures == (1,) and sides.fallback_a.correct.shape == (1, 9, 400)
    at = sides.a.temperatures.index(1)
    mixed = [sides.a.solved_with(sides.fallback_a, 16, m)[at] for m in (2, 4, 8)]
    assert [100 * values.mean() for values in mixed] == pytest.approx([73.1, 77.6, 83.6], abs=0.06)
    found = [sides.difference(values, sides.b.solved(16)[at]) for values in mixed]
    assert [100 * one.difference for one in found] == pytest.approx([8.3, 3.7, -2.3], abs=0.06)
    assert [50 * (one.high - one.low) for one in found] == pytest.approx([1.7, 1.6, 1.9], abs=0.06)
    rows = frontier.compare_with_fallback(sides, 16)
    tries = [(row.about["fallback_a"], row.about["fallback_b"]) for row in rows]
    assert tries == [(2, 0), (2, 2), (4, 0), (4, 4), (8, 0), (8, 8)]
    assert all(row.difference.a >= mixed[i // 2].mean() - 0.002 for i, row in enumerate(rows))
