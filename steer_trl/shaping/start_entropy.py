"""The entropy that a run began with: the mean over its first rollouts, each under the policy that wrote it.

One rollout's entropy varies by 5 % between seeds. So the mean is over four of them at least, and over as many as have
32 groups together; until then it is over those that there are.
"""

import math
from statistics import fmean
from typing import Any

from steer_trl.options.base import ShapingConfig
from steer_trl.validation import from_state, is_within

FIRST_ROLLOUTS = 4
ENOUGH_GROUPS = 32  # at least, of the first rollouts together


def first_rollouts(args: ShapingConfig) -> int:
    """How many rollouts the entropy that a run begins with is the mean of."""
    return max(FIRST_ROLLOUTS, -(-ENOUGH_GROUPS // max(args.groups_per_rollout, 1)))


class StartEntropy:
    """The mean entropy of a run's first `rollouts`; `is_late` where it was resumed without them."""

    def __init__(self, rollouts: int) -> None:
        self.rollouts, self.is_late = rollouts, False
        self._entropies: list[float] = []

    @property
    def value(self) -> float | None:
        """Nats per token; `None` before the first rollout."""
        return fmean(self._entropies) if self._entropies else None

    @property
    def settled(self) -> float | None:
        """The same, and `None` before all rollouts that it is the mean of."""
        return self.value if len(self._entropies) >= self.rollouts else None

    def take(self, entropy: float, is_late: bool = False) -> None:
        """Take the mean entropy of a new rollout, nats per token; `is_late`: this run has made an update."""
        if self.settled is None and math.isfinite(entropy) and entropy > 0:
            self.is_late = is_late if not self._entropies else self.is_late
            self._entropies.append(entropy)

    def state_dict(self) -> dict[str, Any]:
        """Return the entropies that it is the mean of; empty before the first rollout."""
        return {"entropies": list(self._entropies), "is_late": self.is_late} if self._entropies else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`]; `ValueError` where a value is missing or cannot be."""
        state = state or {"entropies": [], "is_late": False}
        must_be = "a list, each a number of nats in (0, inf)"
        self._entropies = list(from_state(state, "entropies", _are_entropies, must_be))
        self.is_late = from_state(state, "is_late", lambda value: isinstance(value, bool), "true or false")


def _are_entropies(value: Any) -> bool:
    return isinstance(value, list) and all(is_within(entropy, "(0, inf)") for entropy in value)
