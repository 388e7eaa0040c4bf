"""`hold_entropy`: hold the policy's entropy at a level, by the strength of a method in use.

It is a method that changes no advantage. Before any update with a new rollout it is told the rollout's entropy, like
every other, and moves the strength of the one that does (`functional/regulator.py`). That one says in which range its
strength lies and how much of it answers an error (`Shaper.strengths`); nothing is to be tuned.

Token weights multiply advantages: where all completions of a prompt are rewarded alike there is nothing to multiply,
and no weight can hold anything. Then the strength goes to its bound and stays, `hold_entropy/out_of_reach` counts the
rollouts, and an alarm says so.
"""

import math
from collections.abc import Mapping
from typing import Any

from steer_trl.functional.regulator import EntropyRegulator
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.options import ShapingConfig
from steer_trl.validation import from_state, is_within

HOLD_ENTROPY = "hold_entropy"


class HoldEntropy(Shaper[ShapingConfig]):
    """Moves the strength of a method; its `strength` and `error` are in the log."""

    needs_rollout_entropy = True

    def __init__(self, args: ShapingConfig, shapers: Mapping[str, Shaper]) -> None:
        super().__init__(args)
        self.name, self.shaper = next((n, s) for n, s in shapers.items() if s.strengths is not None)
        self.regulator: EntropyRegulator | None = None
        self.initial_entropy: float | None = None
        self.shaper.strength = 0.0
        if args.hold_entropy_unit == "nats":
            self._start(1.0)

    def _start(self, unit: float) -> None:
        assert self.shaper.strengths is not None and self.args.hold_entropy is not None
        low, high = self.shaper.strengths
        self.regulator = EntropyRegulator(self.args.hold_entropy * unit, low, high, gain=self.shaper.strength_gain)

    def on_rollout(self, entropy: float) -> None:
        """Fix a relative target at the first rollout, then move the strength."""
        if self.regulator is None and math.isfinite(entropy) and entropy > 0:
            self.initial_entropy = entropy
            self._start(entropy)
        if self.regulator is None:
            return
        self.shaper.strength = self.regulator.update(entropy)

    def metrics(self) -> dict[str, float]:
        """Return target and path to it (nats), relative error of the last rollout, strength, rollouts out of reach.

        Of a relative target also what it is relative to (nats).
        """
        if self.regulator is None:
            return {}
        initial = {} if self.initial_entropy is None else {"hold_entropy/initial_entropy": self.initial_entropy}
        return initial | {
            "hold_entropy/target": self.regulator.target,
            "hold_entropy/reference": self.regulator.reference,
            "hold_entropy/error": self.regulator.error,
            "hold_entropy/strength": self.regulator.strength,
            "hold_entropy/out_of_reach": float(self.regulator.at_bound),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the first rollout's entropy and where the regulator is."""
        regulator = None if self.regulator is None else self.regulator.state_dict()
        return {"initial_entropy": self.initial_entropy, "regulator": regulator}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`].

        Raises:
            `ValueError`: a value is missing or cannot be.
        """
        must_be = "null or a number of nats in (0, inf)"
        initial = from_state(state, "initial_entropy", lambda x: x is None or is_within(x, "(0, inf)"), must_be)
        regulator = from_state(state, "regulator", lambda x: x is None or isinstance(x, dict), "null or a mapping")
        if initial is not None and self.args.hold_entropy_unit == "initial":
            self.initial_entropy = initial
            self._start(initial)
        if regulator is not None and self.regulator is not None:
            self.regulator.load_state_dict(regulator)
            self.shaper.strength = self.regulator.strength


def hold_conflicts(methods: Mapping[str, type[Shaper]], args: ShapingConfig) -> list[str]:
    """Say why the entropy cannot be held with these methods."""
    if args.hold_entropy is None:
        idle = args.hold_entropy_unit != "initial"
        return [
            f"hold_entropy_unit={args.hold_entropy_unit!r} must be unset without hold_entropy: it would be ignored. "
            "Set hold_entropy, or leave it unset."
        ] * idle
    able = [name for name, method in methods.items() if method.strengths is not None]
    if len(able) == 1:
        return []
    return [
        f"hold_entropy={args.hold_entropy!r} moves the strength of one method, and of those in "
        f"advantage_shaping={args.advantage_shaping!r} {len(able) or 'none'} can be moved. Use "
        "advantage_shaping='repo_r', or 'stare' with stare_gate='none'."
    ]
