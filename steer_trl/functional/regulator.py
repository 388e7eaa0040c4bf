"""A closed loop that keeps the policy's entropy from falling below a level, by the strength of what can raise it.

    e = ln(R_k / H_k)                    positive while the entropy is too low
    e = 0 inside a deadband of 2 %, else its distance from it
    I <- I + 0.3 e                       but not while u stands at a bound that e pushes against (anti-windup)
    u = gain (3 e + I)                   within [0, high]

R is the level H*, and while the entropy is above it u is 0, which changes nothing at all: a run that would not have
fallen that far is left alone. Where the first entropy is below the level, R leads from there to it, so that the policy
is spared a first step at full strength:

    ln R_k = ln H* + (ln H_0 - ln H*) exp(-k / 20)

The error is a logarithm because entropies live on one: half of the level and twice the level are equally wrong, and
one pair of gains serves every level; none of the methods that were measured needed another. The proportional part
answers a change at once; the integral part finds the strength at which the error stays zero. An integral alone swings.

The level may fall: H* is constant for a share of the training, and then goes linearly to `final` at its end. The error
is always against the level of the moment. A rollout is written before the updates that its strength acts in, so the
answer to a strength is seen one rollout later. The gains suit that and one more; three later, many policies swing
(`experiments/regulator.py`).
"""

import math
from typing import Any

from steer_trl.validation import from_state, in_interval, in_intervals, is_number, is_within, refuse

PROPORTIONAL, INTEGRAL = 3.0, 0.3
"""Gains, the second per rollout: of those tried on synthetic policies, what misses no level there."""
DEADBAND = 0.02
"""Relative distance from the level that is left alone: what the entropy of one model's rollouts differs by."""
APPROACH = 20
"""Rollouts in which the distance of the reference from the level falls by a factor e."""
RANGES = {"target": "(0, inf)", "high": "(0, inf)", "gain": "(0, inf)", "decay_start": "[0, 1)"}
SCHEDULE = ("target", "final", "decay_start")
REACH = 0.1
"""Relative distance from the target below which the entropy counts as held."""


class EntropyRegulator:
    """Hold an entropy at `target` by a strength in [0, `high`], one [`update`] per rollout.

    Args:
        target (`float`): nats per token, positive: the level at the beginning.
        high (`float`): upper bound of the strength, positive; it is 0 before the first rollout.
        gain (`float`): change of strength per unit of the controller's answer: how strong the strength's unit is.
        final (`float`, *optional*): level at the end of the training, in (0, target]; the same if `None`.
        decay_start (`float`): share of the training after which the level falls to `final`, in [0, 1).

    Attributes:
        target (`float`): the level of the last rollout, nats per token.
        strength (`float`): of the current rollout.
        error (`float`): H / H* - 1 of the last rollout; NaN before the first.
        reference (`float`): R of the last rollout, nats per token; the target before the first.
        at_bound (`int`): rollouts in a row that the strength has stood at its upper bound and the entropy more than
            10 % below the target, which is out of the reach of this strength.

    Raises:
        `ValueError`: a setting outside its range.
    """

    def __init__(
        self,
        target: float,
        high: float,
        gain: float = 1.0,
        final: float | None = None,
        decay_start: float = 0.6,
    ) -> None:
        falls = [] if final is None else in_interval("final", final, f"(0, {target}]", "the level can only fall")
        given = {"target": target, "high": high, "gain": gain, "decay_start": decay_start}
        refuse(in_intervals(RANGES, **given) + falls, "EntropyRegulator")
        self.start, self.final, self.decay_start = target, target if final is None else final, decay_start
        self.target, self.high, self.gain = target, high, gain
        self.strength, self.error, self.reference, self.at_bound = 0.0, math.nan, target, 0
        self._sum, self._gap, self._rollouts, self._origin = 0.0, 0.0, 0, target

    def level(self, progress: float) -> float:
        """Return the level (nats per token) after a share `progress` of the training, in [0, 1]."""
        fallen = max(progress - self.decay_start, 0.0) / (1 - self.decay_start)
        return self.start + (self.final - self.start) * min(fallen, 1.0)

    def update(self, entropy: float, progress: float = 0.0) -> float:
        """Take the entropy of a new rollout (nats per token, not negative) and return the strength for it.

        `progress` is the share of the training that is done, in [0, 1]. An entropy that is not finite changes nothing.
        One of 0 is taken for a trillionth of the target.
        """
        if not math.isfinite(entropy):
            return self.strength
        before, self.target = self.target, self.level(progress)
        if self.target > before:  # a run that was made longer: the path begins again where the entropy is
            self._rollouts = 0
        self.error = entropy / self.target - 1
        distance = math.log(max(entropy / self.target, 1e-12))
        if not self._rollouts:
            self._gap, self._origin = min(distance, 0.0), self.target
        # Upwards to where the level was, until it meets the level.
        path = min(self._gap * math.exp(-self._rollouts / APPROACH) + math.log(self._origin / self.target), 0.0)
        self.reference, self._rollouts = self.target * math.exp(path), self._rollouts + 1
        error = path - distance
        error = math.copysign(max(abs(error) - math.log1p(DEADBAND), 0.0), error)
        is_at_most = self.strength >= self.high and error > 0
        if not is_at_most and not (self.strength <= 0 and error < 0):
            self._sum += INTEGRAL * error
        wanted = self.gain * (PROPORTIONAL * error + self._sum)
        self.strength = min(max(wanted, 0.0), self.high)
        is_out_of_reach = is_at_most and self.strength < wanted and self.error < -REACH
        self.at_bound = self.at_bound + 1 if is_out_of_reach else 0
        return self.strength

    def state_dict(self) -> dict[str, Any]:
        """Return what moves during training, as plain numbers for a JSON file."""
        error = None if math.isnan(self.error) else self.error
        path = {"gap": self._gap, "rollouts": self._rollouts, "reference": self.reference}
        path |= {"level": self.target, "origin": self._origin}
        own = {"strength": self.strength, "sum": self._sum, "error": error, "at_bound": self.at_bound}
        return own | path | self.schedule

    @property
    def schedule(self) -> dict[str, float]:
        """What is to be held when: where it is the same in a checkpoint, that continues as if nothing had happened."""
        falls = {"final": self.final, "decay_start": self.decay_start} if self.final != self.start else {}
        return {"target": self.start} | falls

    def load_state_dict(self, state: Any) -> None:
        """Continue from a [`state_dict`]; a strength beyond a bound that was lowered since is put on it.

        One of another [`schedule`], or of none, gives the strength that it had found and nothing else: the path to
        this target begins at the next entropy.

        Raises:
            `ValueError`: a value is missing or cannot be; nothing is taken then.
        """

        def finite(value: Any) -> bool:
            return is_number(value) and math.isfinite(value)

        def is_positive(value: Any) -> bool:
            return is_within(value, "(0, inf)")

        def count(value: Any) -> bool:
            return isinstance(value, int) and value >= 0

        strength, total, gap, reference = (
            from_state(state, name, finite, "a number") for name in ("strength", "sum", "gap", "reference")
        )
        error = from_state(state, "error", lambda x: x is None or finite(x), "null or a number")
        at_bound, rollouts = (from_state(state, name, count, "a count") for name in ("at_bound", "rollouts"))
        level, origin = (  # a checkpoint from before the level could fall has neither
            from_state({name: self.start} | state, name, is_positive, "a number of nats in (0, inf)")
            for name in ("level", "origin")
        )
        self.strength, self._sum = min(max(strength, 0.0), self.high), total
        if {name: state[name] for name in SCHEDULE if name in state} == self.schedule:
            self.target, self._origin = level, origin
            self.error, self.at_bound = math.nan if error is None else error, at_bound
            self._gap, self._rollouts, self.reference = gap, rollouts, reference
