"""The target H*, which is constant for most of the run and then falls linearly to the end of the run.

    H*(s) = level                                                        for s <= release_start
    H*(s) = level + (final - level) (s - release_start) / (1 - release_start)     afterwards

s is the share of the run that is done; with a `release_start` of 1 the target never falls. Learning uses up entropy,
and faster at a larger learning rate, so the entropy is held while the model learns. When it is lowered at the end,
single tries become better.
"""

import math
from typing import Any, NamedTuple

from steer_trl.support.validation import is_within, read_from_state

RELEASE_AFTER = 0.6
"""The share of the learning after which the target falls, unless `hold_entropy_until` is set."""
FINAL_OVER_LEVEL = 0.5
"""The final target as a share of the level, unless `hold_entropy_final` is set.

Both defaults were chosen by the pilot of a published protocol (`experiments/results/protocol4.md`).
"""
UNTIL_THE_END = 1.0
"""The `release_start` of a target that never falls."""
RANGES = ("(0, inf)", "[0, inf)", "[0, 1]")
"""The valid ranges of a path's level, final target and release start."""


class TargetPath(NamedTuple):
    """The path of the target over the run.

    Attributes:
        level (`float`): the target before the release, nats per token, positive.
        final (`float`): the target at the end of the run, nats per token, in [0, level].
        release_start (`float`): the share of the run after which the target falls, in [0, 1]. At 1 it never falls.
    """

    level: float
    final: float
    release_start: float

    @property
    def falls(self) -> bool:
        """Whether the target is lower at the end of the run than at its beginning."""
        return self.final < self.level and self.release_start < UNTIL_THE_END

    def at(self, progress: float) -> float:
        """Return the target in nats per token, when the share `progress`, in [0, 1], of the run is done."""
        if self.release_start >= UNTIL_THE_END:
            return self.level
        fallen = max(progress - self.release_start, 0.0) / (1 - self.release_start)
        return self.level + (self.final - self.level) * min(fallen, 1.0)

    def count_rollouts_at_level(self, rollouts: float) -> int:
        """Return how many of a run's `rollouts` begin before the target falls. A rollout keeps its target."""
        release = self.release_start if self.falls else UNTIL_THE_END
        # The level is also the target of the rollout that begins at the release.
        return min(math.floor(release * rollouts + 1e-9) + 1, math.ceil(rollouts))

    def agrees_with(self, other: "TargetPath") -> bool:
        """Return whether both paths have the same target at every moment. If none falls, only the levels count."""
        return self == other or (self.level == other.level and not self.falls and not other.falls)

    def describe(self) -> str:
        """Describe the path for a message."""
        falls = f", falling to {self.final:.4g} after {self.release_start:.0%} of the run" if self.falls else ""
        return f"{self.level:.4g} nats{falls}"

    @classmethod
    def read(cls, state: Any) -> "TargetPath":
        """Return the path in a state of the regulator. Raises `ValueError` if it is missing or invalid."""
        must_be = f"three numbers in {', '.join(RANGES)}"
        return cls(*read_from_state(state, "schedule", _is_path, must_be))


def _is_path(value: Any) -> bool:
    return isinstance(value, list) and len(value) == len(RANGES) and all(map(is_within, value, RANGES))
