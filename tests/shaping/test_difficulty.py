"""What the advantages by difficulty are on average: gradients, by enumeration of every outcome of a group."""

from itertools import product
from math import comb

import pytest
import torch

from steer_trl.shaping.methods.difficulty import focal_factors, maxrl_advantages, pass_at_k_advantages


def mean_gradient(advantages, n, p):
    """Of n tries, each correct with probability p: the mean of (1 / n) sum_i A_i d ln P(r_i) / dp."""
    total = 0.0
    for outcome in product([0.0, 1.0], repeat=n):
        chance = torch.tensor([p if r else 1 - p for r in outcome]).prod().item()
        scores = [1 / p if r else -1 / (1 - p) for r in outcome]
        a = advantages(torch.tensor(outcome)).tolist()
        total += chance * sum(x * s for x, s in zip(a, scores, strict=True)) / n
    return total


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("n", [2, 5])
def test_maxrl_follows_the_logarithm_of_p(n, p):
    """ln p = -sum_k (1 - p)^k / k, of which the first n - 1 terms are there."""
    ours = mean_gradient(lambda correct: maxrl_advantages(correct, n), n, p)
    assert ours == pytest.approx(sum((1 - p) ** (k - 1) for k in range(1, n)), rel=1e-5)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 1), (6, 3)])
def test_pass_at_k_follows_pass_at_k(n, k, p):
    """d/dp of 1 - (1 - p)^k, over k, times 1 - k / n: the group's mean holds back that much of it."""
    ours = mean_gradient(lambda correct: pass_at_k_advantages(correct, n, k, scaled=False), n, p)
    assert ours == pytest.approx((1 - p) ** (k - 1) * (1 - k / n), rel=1e-5)


def test_pass_at_k_in_both_papers_readings():
    """Theorem 2 of 2505.15201: k / n if correct, and k / n (1 - C(n-1-c, k-1) / C(n-1, k-1)) if not."""
    correct, (n, c, k) = torch.tensor([1.0, 0.0, 0.0, 1.0]), (4, 2, 2)
    ours = pass_at_k_advantages(correct, n, k, scaled=False)
    rewards = torch.tensor(
        [k / n if r else k / n * (1 - comb(n - 1 - c, k - 1) / comb(n - 1, k - 1)) for r in correct]
    )
    torch.testing.assert_close(rewards - rewards.mean(), torch.tensor([1, -1, -1, 1]) / 12)
    torch.testing.assert_close(ours, torch.tensor([1, -1, -1, 1]) / 6)
    torch.testing.assert_close(ours, n / k * (rewards - rewards.mean()))


def test_focal_factors_of_both_extremes_and_of_nothing():
    correct = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, torch.nan, torch.nan, torch.nan])
    assert focal_factors(correct, 2, 2.0).tolist() == [0.0, 0.0, 0.25, 0.25, 1.0, 1.0, 1.0, 1.0]
