"""pass@k of the training's own groups: the collapse of a policy, seen in any run without a benchmark.

    pass@k = mean over groups of 1 - C(n - c, k) / C(n, k)

n is the number of scored completions of a group, and c the number of correct ones. The estimate is unbiased. If pass@1
rises while pass@8 falls, fewer problems are within reach, and the completions of a prompt become alike.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from steer_trl.monitoring.tries import pass_at_k

PASS_AT_K = {1: "rollout_pass@1", 2: "rollout_pass@2", 4: "rollout_pass@4", 8: "rollout_pass@8"}
"""The key of the log for each k."""


def measure_groups(correct: Sequence[float], size: int) -> dict[str, float]:
    """Return pass@k of groups of `size` completions, by the key of the log, for each k up to `size`.

    `correct` has 1 for a correct completion, 0 for an incorrect one, and NaN for one that could not be scored. A group
    counts for k if at least k of its completions were scored. A key without such a group is left out.
    """
    groups = [correct[start : start + size] for start in range(0, len(correct), size)]
    counts = [[bool(reward) for reward in group if not math.isnan(reward)] for group in groups]
    metrics = {}
    for k, key in PASS_AT_K.items():
        values = [pass_at_k(len(scored), sum(scored), k) for scored in counts if len(scored) >= k]
        if k <= size and values:
            metrics[key] = fmean(values)
    return metrics
