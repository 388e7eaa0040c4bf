"""The entropy of the last 32 groups, for rollouts with fewer prompts.

    H_k = mean of the last n rollouts,   n = 32 / prompts of a rollout, rounded up
    pace = 1 / sqrt(n)

A group is the set of all completions of a prompt. The entropy of a single group varies by some 30 %, so the strength
would follow the draw of the prompts. The mean over 32 groups varies by 5 %, but lags behind. The regulator therefore
integrates more slowly, by the factor `pace`, which was tuned on synthetic policies (`experiments/regulator.py`). With
32 prompts or more, n and the pace are 1.
"""

import math
from collections import deque
from statistics import fmean
from typing import Any

from steer_trl.entropy.start import ENOUGH_GROUPS
from steer_trl.support.validation import is_within, read_from_state


class RecentEntropies:
    """The entropies of the last rollouts that have 32 groups together. `pace` slows the integration down."""

    def __init__(self, groups_per_rollout: int = ENOUGH_GROUPS) -> None:
        rollouts = math.ceil(ENOUGH_GROUPS / max(groups_per_rollout, 1))
        self.pace = 1 / math.sqrt(rollouts)
        self._entropies: deque[float] = deque(maxlen=rollouts)

    def add(self, entropy: float) -> float:
        """Add a rollout's entropy, and return the mean of the last 32 groups, both in nats per token."""
        self._entropies.append(entropy)
        return fmean(self._entropies)

    def state_dict(self) -> dict[str, list[float]]:
        """Return the entropies; empty if one rollout has 32 groups."""
        return {} if self._entropies.maxlen == 1 else {"recent": list(self._entropies)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`]. Raises `ValueError` if it is invalid. It may be of other batch sizes."""
        recent = read_from_state({"recent": []} | state, "recent", _are_entropies, "a list of numbers of at least 0")
        self._entropies = deque(recent, maxlen=self._entropies.maxlen)


def _are_entropies(value: Any) -> bool:
    return isinstance(value, list) and all(is_within(entropy, "[0, inf)") for entropy in value)
