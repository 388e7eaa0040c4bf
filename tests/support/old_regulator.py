"""The regulator as one class, which was in use until the target fell by default: an oracle for `steer_trl/entropy`."""

import math
from functools import partial
from typing import Any

from steer_trl.support.validation import is_within, read_from_state

PROPORTIONAL = 3.0
INTEGRAL = 0.3
"""`PROPORTIONAL` is the gain of the error e. With the gain `INTEGRAL`, each rollout adds e to the sum I.

Both gains were tuned until the entropy of every synthetic policy reached its target.
"""
DEADBAND = 0.02
"""The relative error that is ignored, because two rollouts of an unchanged model differ by as much."""
APPROACH = 20
"""The time constant, in rollouts, with which the reference approaches the level."""
REACH = 0.1
"""The relative distance from the target within which the entropy counts as held."""
MOVING = ("target", "strength", "error", "reference", "integral", "at_bound", "rollouts", "origin", "gap")
is_finite = partial(is_within, interval="(-inf, inf)")


class EntropyRegulator:
    """A controller that holds an entropy near `target` with a strength in [0, `high`].

    Args:
        target (`float`): the initial level, nats per token, positive.
        high (`float`): upper bound of the strength, positive. The strength is 0 before the first rollout.
        gain (`float`): how much the strength changes per unit of 3 e + I.
        final (`float`, *optional*): final level, in (0, target]; `target` if `None`.
        decay_start (`float`): share of training after which the level falls to `final`, in [0, 1).

    Attributes:
        target (`float`), reference (`float`): the level H* and the reference R at the last rollout, nats per token.
        error (`float`), integral (`float`): H / H* - 1 of the last rollout (0 before the first), and the sum I.
        strength (`float`): the strength u of the current rollout.
        at_bound (`int`): number of consecutive rollouts with the strength at its upper bound and the entropy more than
            10 % below the target.
        rollouts (`int`), origin (`float`), gap (`float`): the path of R to the level: the number of rollouts since
            the path started, the level at that time, and ln H minus the logarithm of the level at that time, at most
            0.
    """

    def __init__(
        self, target: float, high: float, gain: float = 1.0, final: float | None = None, decay_start: float = 0.6
    ) -> None:
        self.start = target
        self.final = target if final is None else final
        self.decay_start = decay_start
        self.high = high
        self.gain = gain
        self.target = target
        self.reference = target
        self.error = 0.0
        self.strength = 0.0
        self.integral = 0.0
        self.at_bound = 0
        self.rollouts = 0
        self.origin = target
        self.gap = 0.0

    def level(self, progress: float) -> float:
        """Return the level in nats per token. `progress` is the share of training that is done, in [0, 1]."""
        fallen = max(progress - self.decay_start, 0.0) / (1 - self.decay_start)
        return self.start + (self.final - self.start) * min(fallen, 1.0)

    def update(self, entropy: float, progress: float = 0.0) -> float:
        """Process the entropy of a new rollout, and return the strength for this rollout.

        `entropy` is in nats per token and at least 0. `progress` is the share of training that is done, in [0, 1]. An
        entropy that is not finite changes nothing.
        """
        if not math.isfinite(entropy):
            return self.strength
        before = self.target
        self.target = self.level(progress)
        # The level rises if a resumed run was made longer. The path then starts again at the current entropy.
        if self.target > before:
            self.rollouts = 0
        self.error = entropy / self.target - 1
        # The bound is for an entropy of 0, which has no logarithm.
        distance = math.log(max(entropy / self.target, 1e-12))
        if not self.rollouts:
            self.gap = min(distance, 0.0)
            self.origin = self.target
        # The path rises towards `origin`. It ends when it meets the current level, which may have fallen since.
        path = min(self.gap * math.exp(-self.rollouts / APPROACH) + math.log(self.origin / self.target), 0.0)
        self.reference = self.target * math.exp(path)
        self.rollouts += 1
        error = path - distance
        error = math.copysign(max(abs(error) - math.log1p(DEADBAND), 0.0), error)
        is_at_most = self.strength >= self.high and error > 0
        if not is_at_most and not (self.strength <= 0 and error < 0):
            self.integral += INTEGRAL * error
        wanted = self.gain * (PROPORTIONAL * error + self.integral)
        self.strength = min(max(wanted, 0.0), self.high)
        is_out_of_reach = is_at_most and self.strength < wanted and self.error < -REACH
        self.at_bound = self.at_bound + 1 if is_out_of_reach else 0
        return self.strength

    @property
    def schedule(self) -> list[float]:
        """The initial level, the final level, and the share of training after which the level falls."""
        return [self.start, self.final, self.decay_start]

    def state_dict(self) -> dict[str, Any]:
        """Return the state that changes during training, and the schedule."""
        return {name: getattr(self, name) for name in MOVING} | {"schedule": self.schedule}

    def load_state_dict(self, state: Any) -> None:
        """Restore a [`state_dict`], or raise `ValueError` and change nothing if a value is missing or invalid.

        A strength above the current upper bound is reduced to it. If the state has a different [`schedule`], only its
        strength and integral are restored. The reference then starts anew at the next rollout. It starts at the
        rollout's entropy if that is below the level, and otherwise at the level.
        """
        found = {name: read_from_state(state, name, is_finite, "a number") for name in MOVING}
        is_the_same = read_from_state(state, "schedule", _are_three_numbers, "three numbers") == self.schedule
        vars(self).update(found if is_the_same else {name: found[name] for name in ("strength", "integral")})
        self.strength = min(self.strength, self.high)


def _are_three_numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(is_finite, value))
