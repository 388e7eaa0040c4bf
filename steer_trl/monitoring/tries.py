"""The probability that one of several tries is correct."""

import math

from steer_trl.support.exceptions import InvalidValueError


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return an unbiased estimate of the probability that at least one of `k` samples is correct.

    The estimate is `1 - C(n - c, k) / C(n, k)` (Chen et al. 2021, arXiv 2107.03374, Eq. 1), with
    n = `num_samples` and c = `num_correct`. Raises `ValueError` unless `k` is in [1, n] and c in
    [0, n].
    """
    if not (1 <= k <= num_samples and 0 <= num_correct <= num_samples):
        raise InvalidValueError(
            "pass@k needs 1 <= k <= num_samples and 0 <= num_correct <= num_samples, got "
            f"k={k}, num_correct={num_correct}, num_samples={num_samples}. Draw more samples or lower k."
        )
    return 1 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)
