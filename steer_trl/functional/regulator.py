"""A closed loop that holds the policy's entropy at a level, by the strength of whatever can move it.

    e = ln(H* / H)                       positive while the entropy is too low
    e = 0 inside the deadband, else its distance from it
    I <- I + k_i e                       but not while u stands at a bound that e pushes against (anti-windup)
    u = u_0 + gain (k_p e + I)           within [low, high]

The error is a logarithm because entropies live on one: half of the target and twice the target are equally wrong, and
one pair of gains serves every target. The proportional part answers a change at once; the integral part finds the
strength at which the error stays zero. An integral alone swings.
"""

import math
from typing import Any

from steer_trl.validation import from_state, in_intervals, is_number, refuse

RANGES = {"target": "(0, inf)", "gain": "(0, inf)", "proportional": "[0, inf)", "integral": "[0, inf)"}
RANGES |= {"deadband": "[0, 1)", "start": "(-inf, inf)", "low": "(-inf, inf)", "high": "(-inf, inf)"}
REACH = 0.1
"""Relative distance from the target below which the entropy counts as held."""


class EntropyRegulator:
    """Hold an entropy at `target` by a strength in [`low`, `high`], one [`update`] per rollout.

    Args:
        target (`float`): nats per token, positive.
        low (`float`), high (`float`): bounds of the strength, `low < high`.
        start (`float`): strength before the first rollout, and without any error.
        gain (`float`): change of strength per unit of the controller's answer: how strong the strength's unit is.
        proportional (`float`): k_p, at least 0.
        integral (`float`): k_i, per rollout, at least 0.
        deadband (`float`): relative error that is left alone, in [0, 1).

    Attributes:
        strength (`float`): of the current rollout.
        error (`float`): H / H* - 1 of the last rollout; NaN before the first.
        at_bound (`int`): rollouts in a row that the strength has stood at a bound and the entropy more than 10 % off
            beyond it: the target is out of the reach of this strength.

    Raises:
        `ValueError`: a setting outside its range.
    """

    def __init__(
        self,
        target: float,
        low: float,
        high: float,
        start: float = 0.0,
        gain: float = 1.0,
        proportional: float = 1.0,
        integral: float = 0.02,
        deadband: float = 0.02,
    ) -> None:
        given = {"target": target, "low": low, "high": high, "start": start, "gain": gain}
        given |= {"proportional": proportional, "integral": integral, "deadband": deadband}
        complaints = in_intervals(RANGES, **given)
        if not complaints and not (low < high and low <= start <= high):
            complaints.append(f"start must be in [low, high] with low < high, got {start!r} in [{low!r}, {high!r}].")
        refuse(complaints, "EntropyRegulator")
        self.target, self.low, self.high, self.start, self.gain = target, low, high, start, gain
        self.proportional, self.integral, self.deadband = proportional, integral, deadband
        self.strength, self.error, self.at_bound = start, math.nan, 0
        self._sum = 0.0

    def update(self, entropy: float) -> float:
        """Take the entropy of a new rollout (nats per token, not negative) and return the strength for it.

        An entropy that is not finite changes nothing. At an entropy of 0 the strength is the upper bound.
        """
        if not math.isfinite(entropy):
            return self.strength
        self.error = entropy / self.target - 1
        error = self._beyond_deadband(math.log(self.target / max(entropy, 1e-12 * self.target)))
        pushes_outwards = (self.strength >= self.high and error > 0) or (self.strength <= self.low and error < 0)
        if not pushes_outwards:
            self._sum += self.integral * error
        wanted = self.start + self.gain * (self.proportional * error + self._sum)
        self.strength = min(max(wanted, self.low), self.high)
        is_out_of_reach = pushes_outwards and self.strength != wanted and abs(self.error) > REACH
        self.at_bound = self.at_bound + 1 if is_out_of_reach else 0
        return self.strength

    def _beyond_deadband(self, error: float) -> float:
        width = math.log1p(self.deadband)
        return math.copysign(max(abs(error) - width, 0.0), error)

    def state_dict(self) -> dict[str, Any]:
        """Return what moves during training, as plain numbers for a JSON file."""
        error = None if math.isnan(self.error) else self.error
        return {"strength": self.strength, "sum": self._sum, "error": error, "at_bound": self.at_bound}

    def load_state_dict(self, state: Any) -> None:
        """Continue from a [`state_dict`]; a strength beyond bounds that were narrowed since is put on them.

        Raises:
            `ValueError`: a value is missing or cannot be; nothing is taken then.
        """

        def finite(value: Any) -> bool:
            return is_number(value) and math.isfinite(value)

        strength = from_state(state, "strength", finite, "a number")
        total = from_state(state, "sum", finite, "a number")
        error = from_state(state, "error", lambda x: x is None or finite(x), "null or a number")
        at_bound = from_state(state, "at_bound", lambda x: isinstance(x, int) and x >= 0, "a count")
        self.strength, self._sum = min(max(strength, self.low), self.high), total
        self.error, self.at_bound = math.nan if error is None else error, at_bound
