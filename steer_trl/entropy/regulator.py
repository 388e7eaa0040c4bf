"""The regulator: it holds the policy's entropy near a target with a method's strength u.

    H*_k = target.at(progress)             target.py
    ln R_k = ln H*_k + approach            approach.py: the setpoint, at most the target
    u_k = law(ln R_k - ln H_k)             pi_law.py: the strength, in [0, max_strength]

H_k is the entropy of rollout k, or of the last rollouts with 32 groups together (`recent.py`). Until it falls below
the setpoint, u is 0 and the method has no effect. The strength that is set after rollout k acts in the updates on
rollout k, so its effect shows in rollout k + 1.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from steer_trl.entropy.approach import Approach
from steer_trl.entropy.pi_law import PILaw
from steer_trl.entropy.recent import RecentEntropies
from steer_trl.entropy.start import ENOUGH_GROUPS
from steer_trl.entropy.target import RELEASE_AFTER, TargetPath
from steer_trl.support.validation import is_within, read_from_state

HELD_WITHIN = 0.1
"""The relative distance from the target within which the entropy counts as held."""
NUMBERS = {
    "target": "target",
    "strength": "strength",
    "deviation": "error",
    "setpoint": "reference",
    "integral": "integral",
    "rollouts_at_max": "at_bound",
    "approach_rollouts": "rollouts",
    "approach_target": "origin",
    "approach_gap": "gap",
}
"""Maps each number of a saved state to its name in earlier checkpoints."""
is_finite = partial(is_within, interval="(-inf, inf)")


class EntropyRegulator:
    """A controller that holds an entropy near a target with a strength in [0, `max_strength`].

    Args:
        level (`float`): the target before the release, nats per token, positive.
        max_strength (`float`): upper bound of the strength, positive.
        gain (`float`): strength per unit of 3 e + I.
        final (`float`, *optional*): the target at the end of the run, in [0, level]; `level` if `None`.
        release_start (`float`): share of the run after which the target falls to `final`, in [0, 1]; by default the
            share of the learning, as at a constant learning rate.
        groups_per_rollout (`int`): number of prompts of a rollout. With fewer than 32, H is the mean of several
            rollouts.
        before (`Sequence[float]`): the entropies of the rollouts before the first, for this mean.

    Attributes:
        path (`TargetPath`): the target over the run.
        target (`float`), setpoint (`float`): the target H* and the setpoint R at the last rollout, nats per token.
        deviation (`float`): H / H* - 1 of the last rollout; 0 before the first and while the target is 0.
        rollouts_at_max (`int`): number of consecutive rollouts in which the strength was at its upper bound already,
            more was asked for, and the entropy was more than 10 % below the target.
    """

    def __init__(
        self,
        level: float,
        max_strength: float,
        gain: float = 1.0,
        final: float | None = None,
        release_start: float = RELEASE_AFTER,
        groups_per_rollout: int = ENOUGH_GROUPS,
        before: Sequence[float] = (),
    ) -> None:
        self.path = TargetPath(level, level if final is None else final, release_start)
        self.approach = Approach(level)
        self.law = PILaw(max_strength, gain)
        self.recent = RecentEntropies(groups_per_rollout, before)
        self.target = level
        self.setpoint = level
        self.deviation = 0.0
        self.rollouts_at_max = 0

    @property
    def strength(self) -> float:
        """The strength u of the current rollout."""
        return self.law.strength

    def update(self, entropy: float, progress: float = 0.0) -> float:
        """Process the entropy of a new rollout, and return the strength for this rollout.

        `entropy` is in nats per token and at least 0. `progress` is the share of the run that is done, in [0, 1]. An
        entropy that is not finite changes nothing. At a target of 0, nothing is held.
        """
        if not math.isfinite(entropy):
            return self.strength
        target = self.path.at(progress)
        # Within a run the target only falls. It rises if a resumed run was made longer, and the setpoint then starts
        # again at the present entropy.
        if target > self.target:
            self.approach.restart()
        self.target = target
        # Rounding can make the entropy of a policy that is certain of every token slightly negative.
        entropy = self.recent.add(max(entropy, 0.0))
        if target <= 0:
            self._reset()
            return self.strength
        self.deviation = entropy / target - 1
        # The bound is for an entropy of 0, which has no logarithm.
        entropy_offset = math.log(max(entropy / target, 1e-12))
        setpoint_offset = self.approach.next(target, entropy_offset)
        self.setpoint = target * math.exp(setpoint_offset)
        self.law.update(setpoint_offset - entropy_offset, self.recent.pace)
        is_out_of_reach = self.law.is_saturated and self.deviation < -HELD_WITHIN
        self.rollouts_at_max = self.rollouts_at_max + 1 if is_out_of_reach else 0
        return self.strength

    def _reset(self) -> None:
        self.setpoint = 0.0
        self.deviation = 0.0
        self.rollouts_at_max = 0
        self.law.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the state that changes during training, and the path of the target.

        `schedule` is the key of the path since the first checkpoints.
        """
        return {name: self._find(name) for name in NUMBERS} | self.recent.state_dict() | {"schedule": list(self.path)}

    def load_state_dict(self, state: Any) -> None:
        """Restore a [`state_dict`], or raise `ValueError` and change nothing if a value is missing or invalid.

        A strength above the current upper bound is reduced to it. If the state has a different path of the target,
        the target and the setpoint are not restored: the next rollout begins a new approach from the present entropy.
        """
        state = rename_numbers(state)
        numbers = {name: read_from_state(state, name, is_finite, "a number") for name in NUMBERS}
        path = TargetPath.read(state)
        self.recent.load_state_dict(state)
        if path.agrees_with(self.path):
            self.target = numbers["target"]
            self.setpoint = numbers["setpoint"]
            self.deviation = numbers["deviation"]
            self.rollouts_at_max = numbers["rollouts_at_max"]
            self.approach.rollouts = numbers["approach_rollouts"]
            self.approach.target = numbers["approach_target"]
            self.approach.gap = numbers["approach_gap"]
        self.law.integral = numbers["integral"]
        self.law.strength = min(numbers["strength"], self.law.max_strength)

    def _find(self, name: str) -> float:
        if name.startswith("approach_"):
            return getattr(self.approach, name.removeprefix("approach_"))
        return getattr(self.law if name in ("strength", "integral") else self, name)


def rename_numbers(state: Any) -> Any:
    """Return a saved state with its present names. Earlier checkpoints have other names."""
    if not isinstance(state, Mapping) or "setpoint" in state:
        return state
    return {**state, **{name: state[old] for name, old in NUMBERS.items() if old in state}}
