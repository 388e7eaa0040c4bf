"""The initial entropy of a run: the mean over its first rollouts, each under the policy that generated it.

One rollout's entropy varies by 5 % between seeds. The mean is therefore over at least four rollouts and at least 32
groups. `value` is the mean so far. `settled` is `None` until all these rollouts are there. A relative level is a
multiple of `settled`.
"""

import math
from statistics import fmean
from typing import Any

from steer_trl.options.base import ShapingConfig
from steer_trl.support.validation import is_within, read_from_state

MIN_ROLLOUTS = 4
ENOUGH_GROUPS = 32
"""The minimum total number of groups in the first rollouts."""


def count_first_rollouts(args: ShapingConfig) -> int:
    """Return the number of rollouts averaged for the initial entropy."""
    return max(MIN_ROLLOUTS, math.ceil(ENOUGH_GROUPS / max(args.groups_per_rollout, 1)))


class StartEntropy:
    """The mean entropy of a run's first `rollouts` rollouts.

    `is_late` is true if the policy had been updated before the first of these rollouts, as in a run that was resumed
    without this state: the mean is then no initial entropy, and is not logged as one. `skipped` counts the rollouts
    that were left out, because their entropy is not a finite number above 0.
    """

    def __init__(self, rollouts: int) -> None:
        self.rollouts = rollouts
        self.skipped = 0
        self._configured_rollouts = rollouts
        self.is_late = False
        self._entropies: list[float] = []

    @property
    def value(self) -> float | None:
        """The mean so far, in nats per token; `None` before the first rollout."""
        return fmean(self._entropies) if self._entropies else None

    @property
    def settled(self) -> float | None:
        """The initial entropy, in nats per token; `None` until all `rollouts` rollouts have been added."""
        return self.value if len(self._entropies) >= self.rollouts else None

    @property
    def entropies(self) -> tuple[float, ...]:
        """The entropies of the rollouts so far, in nats per token."""
        return tuple(self._entropies)

    def add(self, entropy: float, is_late: bool = False) -> None:
        """Add the mean entropy of a new rollout, unless `rollouts` rollouts have been added already.

        `entropy` is in nats per token. `is_late` means that the policy was updated before this rollout.
        """
        if self.settled is not None:
            return
        if not (math.isfinite(entropy) and entropy > 0):
            self.skipped += 1
        else:
            self.is_late = is_late if not self._entropies else self.is_late
            self._entropies.append(entropy)

    def freeze(self) -> None:
        """Take the mean so far as the initial entropy, and add no further rollouts to it."""
        self.rollouts = len(self._entropies) or self.rollouts

    def state_dict(self) -> dict[str, Any]:
        """Return the entropies so far and the number of rollouts averaged; empty before the first rollout."""
        if not self._entropies:
            return {}
        return {"entropies": list(self._entropies), "is_late": self.is_late, "rollouts": self.rollouts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`]. Raises `ValueError` if a value is missing or invalid.

        The number of averaged rollouts is restored, too, because a resumed run may have other batch sizes.
        Earlier checkpoints lack it, and then the number stays as it is.
        """
        # The state is empty if the checkpoint precedes the first rollout, or if `train` was called again.
        state = state or {"entropies": [], "is_late": False, "rollouts": self._configured_rollouts}
        state = {"rollouts": self.rollouts} | state
        must_be = "a list, each a number of nats in (0, inf)"
        entropies = read_from_state(state, "entropies", _are_entropies, must_be)
        is_late = read_from_state(state, "is_late", lambda value: isinstance(value, bool), "true or false")
        self.rollouts = read_from_state(state, "rollouts", _is_count, "a whole number in [1, inf)")
        self._entropies = list(entropies)
        self.is_late = is_late
        self.skipped = 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and is_within(value, "[1, inf)")


def _are_entropies(value: Any) -> bool:
    return isinstance(value, list) and all(is_within(entropy, "(0, inf)") for entropy in value)
