"""How a policy is judged on problems with several samples each: accuracy, pass@k, and how sure one can be."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Probability that at least one of `k` samples is right, estimated without bias from more samples.

    `1 - C(n - c, k) / C(n, k)`, Chen et al. 2021 (arXiv 2107.03374), Eq. 1.

    Args:
        num_samples (`int`): n, samples drawn for the problem.
        num_correct (`int`): c, how many of them are right, from 0 to n.
        k (`int`): from 1 to n.

    Raises:
        `ValueError`: `k` or `num_correct` outside its range.
    """
    if not (1 <= k <= num_samples and 0 <= num_correct <= num_samples):
        raise ValueError(
            f"k={k}, num_correct={num_correct}, num_samples={num_samples} is refused: pass@k needs "
            "1 <= k <= num_samples and 0 <= num_correct <= num_samples. Draw more samples or lower k."
        )
    return 1 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean over problems, and the half width of its 95 % confidence interval (normal approximation).

    The interval is about which problems were drawn, not about the seed of a training run. One value has no interval:
    half width NaN.
    """
    half_width = 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return fmean(values), half_width
