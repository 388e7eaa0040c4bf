"""A closed loop that holds the policy's entropy near a level, by the strength of what can raise it.

    e = ln(R_k / H_k)                    positive while the entropy is too low
    e = 0 inside a deadband of 2 %, else its distance from it
    I <- I + 0.3 e                       but not while u stands at a bound that e pushes against (anti-windup)
    u = gain (3 e + I)                   within [0, high]

R is the level H*; while the entropy is above it u is 0, which changes nothing at all. Where the first entropy is below
the level, R leads from there to it, so that the policy is spared a first step at full strength:

    ln R_k = ln H* + (ln H_0 - ln H*) exp(-k / 20)

The error is a logarithm: half of the level and twice the level are equally wrong, and one pair of gains serves every
level. The level may fall: H* is constant for a share of the training, and then goes linearly to `final` at its end.
A rollout is written before the updates that its strength acts in, so the answer to a strength is seen one rollout
later. The gains suit that and one more; three later, many policies swing (`experiments/regulator.py`).
"""

import math
from functools import partial
from typing import Any

from steer_trl.validation import from_state, is_within

PROPORTIONAL, INTEGRAL = 3.0, 0.3  # the second per rollout: what misses no level on synthetic policies
DEADBAND = 0.02  # relative: what the entropy of one model's rollouts differs by
APPROACH = 20  # rollouts in which the distance of the reference from the level falls by a factor e
REACH = 0.1  # relative distance from the target below which the entropy counts as held
MOVING = ("target", "strength", "error", "reference", "integral", "at_bound", "rollouts", "origin", "gap")
is_finite = partial(is_within, interval="(-inf, inf)")


class EntropyRegulator:
    """Hold an entropy at `target` by a strength in [0, `high`], one [`update`] per rollout.

    Args:
        target (`float`): nats per token, positive: the level at the beginning.
        high (`float`): upper bound of the strength, positive; it is 0 before the first rollout.
        gain (`float`): change of strength per unit of the controller's answer: how strong the strength's unit is.
        final (`float`, *optional*): level at the end of the training, in (0, target]; the same if `None`.
        decay_start (`float`): share of the training after which the level falls to `final`, in [0, 1).

    Attributes:
        target (`float`), reference (`float`): H* and R of the last rollout, nats per token.
        error (`float`), integral (`float`): H / H* - 1 of the last rollout, 0 before the first; I.
        strength (`float`): of the current rollout.
        at_bound (`int`): rollouts in a row with the strength at its upper bound and the entropy out of its reach: more
            than 10 % below the target.
        rollouts (`int`), origin (`float`), gap (`float`): of the path to the level: how many rollouts ago it began, at
            which level, and how far below that the entropy was then, in ln H.
    """

    def __init__(
        self, target: float, high: float, gain: float = 1.0, final: float | None = None, decay_start: float = 0.6
    ) -> None:
        self.start, self.final, self.decay_start = target, target if final is None else final, decay_start
        self.target, self.high, self.gain = target, high, gain
        self.reference, self.error, self.strength, self.integral, self.at_bound = target, 0.0, 0.0, 0.0, 0
        self.rollouts, self.origin, self.gap = 0, target, 0.0

    def level(self, progress: float) -> float:
        """Return the level (nats per token) after a share `progress` of the training, in [0, 1]."""
        fallen = max(progress - self.decay_start, 0.0) / (1 - self.decay_start)
        return self.start + (self.final - self.start) * min(fallen, 1.0)

    def update(self, entropy: float, progress: float = 0.0) -> float:
        """Take the entropy of a new rollout (nats per token, not negative) and return the strength for it.

        `progress` is the share of the training that is done, in [0, 1]. An entropy that is not finite changes nothing.
        """
        if not math.isfinite(entropy):
            return self.strength
        before, self.target = self.target, self.level(progress)
        if self.target > before:  # a run that was made longer: the path begins again where the entropy is
            self.rollouts = 0
        self.error = entropy / self.target - 1
        distance = math.log(max(entropy / self.target, 1e-12))  # an entropy of 0 has no logarithm
        if not self.rollouts:
            self.gap, self.origin = min(distance, 0.0), self.target
        # Upwards to where the level was, until it meets the level.
        path = min(self.gap * math.exp(-self.rollouts / APPROACH) + math.log(self.origin / self.target), 0.0)
        self.reference, self.rollouts = self.target * math.exp(path), self.rollouts + 1
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
        """What is to be held when: the level at the beginning and at the end, and from which share on it falls."""
        return [self.start, self.final, self.decay_start]

    def state_dict(self) -> dict[str, Any]:
        """Return what moves during training, and the schedule."""
        return {name: getattr(self, name) for name in MOVING} | {"schedule": self.schedule}

    def load_state_dict(self, state: Any) -> None:
        """Continue from a [`state_dict`]; `ValueError` where a value is missing or cannot be, and nothing is taken.

        A strength beyond a bound that was lowered since is put on it. A state of another [`schedule`] gives the
        strength that it had found and nothing else: the path to this level begins at the next entropy.
        """
        found = {name: from_state(state, name, is_finite, "a number") for name in MOVING}
        is_the_same = from_state(state, "schedule", _are_three_numbers, "three numbers") == self.schedule
        vars(self).update(found if is_the_same else {name: found[name] for name in ("strength", "integral")})
        self.strength = min(self.strength, self.high)


def _are_three_numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(is_finite, value))
