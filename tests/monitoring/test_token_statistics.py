"""Quadrants, quarters and clipped tokens, against loops over plain numbers."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from monitoring.test_statistics import finished
from support.methods.batches import SEEDS, random_batch, trained
from support.methods.oracles import exact_change, mean

from steer_trl.monitoring.tokens import change_statistics, quarters, token_statistics


def mean_or_nan(values):
    return mean(values) if values else math.nan


def approx(value):
    return pytest.approx(value, abs=1e-6, rel=1e-5, nan_ok=True)


@given(SEEDS)
def test_against_a_loop(seed):
    batch = random_batch(seed)
    statistics = token_statistics(batch) | change_statistics(batch, batch.advantages)
    found = {key: finished(statistic) for key, statistic in statistics.items()}
    columns = (batch.advantages.expand_as(batch.logps), batch.logps, batch.old_logps, batch.entropies)
    rows = [[column.double()[place].item() for column in columns] for place in trained(batch)]
    changes = list(exact_change(batch).values())

    def share(condition, values=None):
        return mean_or_nan([condition(*row) * x for row, x in zip(rows, values or [1.0] * len(rows), strict=True)])

    def entropy(condition):
        return mean_or_nan([row[3] for row in rows if condition(*row)])

    expected = {
        "entropy/predicted_change": mean_or_nan(changes),
        "entropy/positive": entropy(lambda a, *_: a > 0),
        "entropy/negative": entropy(lambda a, *_: a < 0),
    }
    signs = {("positive", "upper"): 1, ("negative", "lower"): -1}
    for ((name, side), sign), other in product(signs.items(), (False, True)):

        def in_quadrant(a, lp, lq, h, sign=sign, is_surprising=other):
            return a * sign > 0 and (-lp > h) is is_surprising

        def is_clipped(a, lp, lq, h, sign=sign, is_likely=other):
            bound = 1 + batch.epsilon_high if sign > 0 else 1 - batch.epsilon_low
            return a * sign > 0 and (math.exp(lp - lq) - bound) * sign > 0 and (math.exp(lq) >= 0.2) is is_likely

        quadrant = f"quadrants/{name}_{'surprising' if other else 'expected'}"
        expected |= {quadrant: share(in_quadrant), f"{quadrant}_change": share(in_quadrant, changes)}
        expected[f"clip/{side}_{'likely' if other else 'unlikely'}"] = share(is_clipped)
    assert {key: found.pop(key) for key in expected} == approx(expected)
    quarters = {f"entropy/{which}_quarter" for which in ("first", "second", "third", "last")}
    assert found.keys() == quarters | {"entropy/estimated_change"}


def test_quarters_are_of_trained_tokens():
    mask = torch.tensor([[1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 1, 1, 0], [1] * 7, [0] * 7, [0, 0, 1, 0, 0, 0, 0]])
    quarter = quarters(mask)
    expected = [[0, 1, 2, 3], [0, 0, 1, 2, 3], [0, 0, 1, 1, 2, 2, 3], [], [0]]
    assert [row[kept].tolist() for row, kept in zip(quarter, mask.bool(), strict=True)] == expected


def test_tokens_that_are_not_finite_are_skipped():
    bad, without = random_batch(3), random_batch(3)
    place = trained(bad)[0]
    bad.logps[place], without.mask[place] = math.nan, 0
    of_bad, of_others = (token_statistics(x) | change_statistics(x, x.advantages) for x in (bad, without))
    for key in of_others:
        if "quarter" not in key:  # which counts it in the length of its completion
            assert finished(of_bad[key]) == approx(finished(of_others[key])), key


def test_nothing_can_be_clipped_where_nothing_moved():
    batch = random_batch(0)
    assert any(key.startswith("clip/") for key in token_statistics(batch))
    for still in (replace(batch, epsilon_high=math.inf), replace(batch, old_logps=batch.logps)):
        assert not any(key.startswith("clip/") for key in token_statistics(still))


def test_without_sensitivities_there_is_the_estimate_only():
    batch = replace(random_batch(0), sensitivities=None)
    assert set(change_statistics(batch, batch.advantages)) == {"entropy/estimated_change"}
