"""The control law: a strength u from an error e, proportional and integral.

    e <- the part of e beyond a deadband of 2 %, and 0 inside it
    I <- I + 0.3 pace e     unless the last u is at a bound and e would push it further (anti-windup)
    u = gain (3 e + I)      within [0, max_strength]

The error is a difference of logarithms, so half the setpoint and twice the setpoint are equally wrong, and one pair of
gains suits every level. The gains suit a strength that acts one or two rollouts late. With a delay of three, the
entropy of many synthetic policies oscillates (`experiments/regulator.py`).
"""

import math

PROPORTIONAL = 3.0
INTEGRAL = 0.3
"""`PROPORTIONAL` multiplies the error e, and each rollout adds `INTEGRAL` times e to the sum I.

Both were tuned until the entropy of every synthetic policy reached its target.
"""
DEADBAND = 0.02
"""The relative error that is ignored, so that the strength does not follow the noise of single rollouts."""


class PILaw:
    """A proportional-integral controller of a strength in [0, `max_strength`].

    Attributes:
        strength (`float`): the present strength u; 0 before the first error.
        integral (`float`): the sum I.
        is_saturated (`bool`): whether the strength was at its upper bound already, and the error asks for more.
    """

    def __init__(self, max_strength: float, gain: float = 1.0) -> None:
        self.max_strength = max_strength
        self.gain = gain
        self.strength = 0.0
        self.integral = 0.0
        self.is_saturated = False

    def update(self, error: float, pace: float = 1.0) -> float:
        """Return the strength after an error e = ln R - ln H, which is positive while the entropy is too low.

        `pace`, in (0, 1], slows the integration down.
        """
        error = math.copysign(max(abs(error) - math.log1p(DEADBAND), 0.0), error)
        pushes_past_max = self.strength >= self.max_strength and error > 0
        pushes_below_zero = self.strength <= 0 and error < 0
        if not (pushes_past_max or pushes_below_zero):
            self.integral += INTEGRAL * pace * error
        unbounded = self.gain * (PROPORTIONAL * error + self.integral)
        self.strength = min(max(unbounded, 0.0), self.max_strength)
        self.is_saturated = pushes_past_max and self.strength < unbounded
        return self.strength

    def reset(self) -> None:
        """Set the strength and the sum to 0."""
        self.strength = 0.0
        self.integral = 0.0
        self.is_saturated = False
