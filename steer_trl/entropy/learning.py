"""The share of a run after which a share of its learning is done.

    learning after n of N steps = (r_1 + ... + r_n) / (r_1 + ... + r_N),   r_k: the learning rate of step k

With a constant rate, both shares are the same. With a rate that falls linearly to 0, 84 % of the learning is done
after 60 % of the run, and an entropy that is let go so late can no longer fall.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


def find_run_share(rates: Sequence[float], learning_share: float) -> float:
    """Return the share of the steps after which `learning_share` of the learning is done. Both are in [0, 1].

    `rates` are the learning rates of all steps of the run. Within a step, learning is taken as even. If all rates are
    equal, the result is exactly `learning_share`.
    """
    total = math.fsum(rates)
    if total <= 0 or min(rates) == max(rates) or learning_share in (0, 1):
        return learning_share
    learning_target = learning_share * total
    learning_until = list(accumulate(rates))
    # The sums of both functions may differ by rounding, so the last step and its end are bounds.
    step = min(bisect_left(learning_until, learning_target), len(rates) - 1)
    before = learning_until[step - 1] if step else 0.0
    within = (learning_target - before) / rates[step] if rates[step] else 1.0
    return (step + min(within, 1.0)) / len(rates)
