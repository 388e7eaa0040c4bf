"""The controller of `hold_entropy`, which adjusts a method's strength to keep the entropy at or above a level.

The controller receives the entropy of each new rollout after the methods have received it, and before any update on
that rollout. It then adjusts the strength of one method (`functional/regulator.py`). The method defines the upper
bound of its strength and the gain of the controller (`Shaper.control`).

Until the entropy falls below the level, the strength is 0 and the method has no effect. A relative level is a multiple
of the run's initial entropy (`start_entropy.py`). Until the initial entropy is known, the strength is 0 as well. If
all completions of each prompt get the same reward, all advantages are 0, and token weights cannot hold the entropy.
The strength then rises to its bound, `hold_entropy/out_of_reach` counts these rollouts, and an alarm is raised.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from steer_trl.functional.regulator import EntropyRegulator
from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.start_entropy import StartEntropy
from steer_trl.validation import check_interval

logger = logging.getLogger(__name__)


class HoldEntropy:
    """The controller of `hold_entropy`, which adjusts the strength of one method."""

    name = "hold_entropy"
    """The key under which a checkpoint saves the state of the controller."""

    def __init__(self, args: ShapingConfig, shapers: Mapping[str, Shaper], start: StartEntropy) -> None:
        self.args = args
        self.start = start
        self.shaper = next(shaper for shaper in shapers.values() if shaper.control is not None)
        self.shaper.strength = 0.0
        self._regulator: EntropyRegulator | None = None

    @property
    def regulator(self) -> EntropyRegulator | None:
        """The regulator; `None` until the level is known in nats."""
        unit = 1.0 if self.args.hold_entropy_unit == "nats" else self.start.settled
        if self._regulator is None and unit is not None:
            assert self.shaper.control is not None and self.args.hold_entropy is not None
            final = self.args.hold_entropy_final
            self._regulator = EntropyRegulator(
                self.args.hold_entropy * unit,
                self.shaper.control.max_strength,
                gain=self.shaper.control.gain,
                final=None if final is None else final * unit,
                decay_start=self.args.hold_entropy_decay_start,
            )
        return self._regulator

    def on_rollout(self, entropy: float, progress: float) -> None:
        """Update the method's strength from a new rollout's mean entropy (nats, over all ranks).

        `progress` is the share of training that is done, in [0, 1].
        """
        if self.regulator is not None:
            self.shaper.strength = self.regulator.update(entropy, progress)

    def level(self, progress: float) -> float | None:
        """Return the level in nats, or `None` until it is known.

        `progress` is the share of training that is done, in [0, 1].
        """
        return None if self.regulator is None else self.regulator.level(progress)

    def metrics(self) -> dict[str, float]:
        """Return the controller's numbers to be logged.

        These are the level and the reference (nats), the relative error, the strength, and the number of rollouts for
        which the level was out of reach. Until the level is known, only the strength is returned, which is 0.
        """
        if self.regulator is None:
            return {"hold_entropy/strength": 0.0}
        return {
            "hold_entropy/target": self.regulator.target,
            "hold_entropy/reference": self.regulator.reference,
            "hold_entropy/error": self.regulator.error,
            "hold_entropy/strength": self.regulator.strength,
            "hold_entropy/out_of_reach": float(self.regulator.at_bound),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the regulator; empty until the level is known."""
        return {} if self.regulator is None else self.regulator.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`]; an empty one resets to the start of a run.

        Raises `ValueError` if a value is missing or invalid.
        """
        if not state:
            self._regulator = None
            self.shaper.strength = 0.0
        elif self.regulator is not None:
            self.regulator.load_state_dict(state)
            self.shaper.strength = self.regulator.strength
            if (schedule := state["schedule"]) != self.regulator.schedule:
                logger.warning(
                    "The entropy was held at %s when the checkpoint was saved, and will be held at %s. It moves there "
                    "from its present value.",
                    _describe(schedule),
                    _describe(self.regulator.schedule),
                )


def _describe(schedule: Sequence[float]) -> str:
    start, final, decay_start = schedule
    falls = f", falling to {final:.4g} after {decay_start:.0%} of training" if final != start else ""
    return f"{start:.4g} nats{falls}"


def hold_conflicts(methods: Mapping[str, type[Shaper]], args: ShapingConfig) -> list[str]:
    """Return complaints if `hold_entropy` is set and cannot work with the `methods` or other settings."""
    if args.hold_entropy is None:
        return []
    complaints = []
    if args.hold_entropy_final is not None:
        why = "the level can only fall; to begin higher, raise hold_entropy"
        complaints += check_interval("hold_entropy_final", args.hold_entropy_final, f"(0, {args.hold_entropy}]", why)
    if args.hold_entropy_unit == "initial":
        why = "it is a multiple of the entropy that the run begins with"
        complaints += check_interval("hold_entropy", args.hold_entropy, "(0, 2]", why)
    able = [name for name, method in methods.items() if method.control is not None]
    if len(able) != 1:
        complaints.append(
            f"hold_entropy={args.hold_entropy!r} moves the strength of one method, and of those in "
            f"advantage_shaping={args.advantage_shaping!r} {len(able) or 'none'} can be moved. Use "
            "advantage_shaping='stare', 'repo_r', 'entropy_change' or 'entropy_bonus', or leave it unset."
        )
    return complaints
