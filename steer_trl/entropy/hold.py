"""The controller of `hold_entropy`: the regulator in a run.

It gets the entropy of each new rollout before the updates on it, and sets the strength of one method
(`regulator.py`). The method defines the upper bound of its strength and the gain (`actuator.py`), and reads the
strength whenever it weights tokens.

Until the entropy falls below the setpoint, the strength is 0 and the method has no effect. A relative level is a
multiple of the run's initial entropy (`start.py`); until that is known, the strength is 0 as well. If the completions
of each prompt all have the same reward, all advantages are 0, and weights on tokens do nothing. The strength then
climbs to its bound, `hold_entropy/out_of_reach` counts the rollouts that it spends there with the entropy more than
10 % below the target, and the alarm `below_target` is raised.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from steer_trl.entropy.actuator import Actuator
from steer_trl.entropy.learning import find_run_share
from steer_trl.entropy.regulator import EntropyRegulator
from steer_trl.entropy.resume import continue_path, path_settings
from steer_trl.entropy.start import StartEntropy
from steer_trl.entropy.target import FINAL_OVER_LEVEL, RELEASE_AFTER, TargetPath
from steer_trl.options.base import ShapingConfig

logger = logging.getLogger(__name__)


class HoldEntropy:
    """The controller of `hold_entropy`, which sets the strength of one method.

    Attributes:
        regulator (`EntropyRegulator`, *optional*): the regulator; `None` until the level is known in nats.
        release_start (`float`): the share of the run after which the target falls.
    """

    name = "hold_entropy"
    """The key under which a checkpoint saves the state of the controller."""

    def __init__(self, args: ShapingConfig, shapers: Mapping[str, Actuator], start: StartEntropy) -> None:
        self.args = args
        self.start = start
        self.shaper = next(shaper for shaper in shapers.values() if shaper.control is not None)
        self.shaper.strength = 0.0
        self.regulator: EntropyRegulator | None = None
        self.begin_training()

    # The path of the target.

    def begin_training(self, rates: Sequence[float] = ()) -> None:
        """Set the share of the run after which the target falls.

        `rates` are the learning rates of all steps of the run. If they are not known, the learning counts as even.
        """
        share = self.args.hold_entropy_until
        if self.args.hold_entropy_decay_start is not None:
            self.release_start = self.args.hold_entropy_decay_start
        else:
            self.release_start = find_run_share(rates, RELEASE_AFTER if share is None else share)

    @property
    def unit(self) -> float | None:
        """The unit of the level in nats: 1, or the initial entropy; `None` until that is known."""
        return 1.0 if self.args.hold_entropy_unit == "nats" else self.start.settled

    def count_rollouts_at_level(self, rollouts: float) -> float:
        """Return how many of a run's `rollouts` are meant to be at the level.

        A target that falls from the first step on is not meant to be held, so there all of them count.
        """
        return self._find_path(1.0).count_rollouts_at_level(rollouts) if self.release_start > 0 else rollouts

    def _find_path(self, unit: float) -> TargetPath:
        assert self.args.hold_entropy is not None
        level = self.args.hold_entropy * unit
        final = self.args.hold_entropy_final
        return TargetPath(level, FINAL_OVER_LEVEL * level if final is None else final * unit, self.release_start)

    # The strength.

    def on_rollout(self, entropy: float, progress: float) -> None:
        """Update the method's strength from a new rollout's mean entropy (nats, over all ranks).

        `progress` is the share of the run that is done, in [0, 1].
        """
        if self.regulator is None and self.unit is not None:
            # If this rollout completes the initial entropy, the ones before it are averaged, too.
            *before, last = self.start.entropies or [entropy]
            self.regulator = self._make_regulator(self._find_path(self.unit), before if last == entropy else ())
        if self.regulator is not None:
            self.shaper.strength = self.regulator.update(entropy, progress)

    def _make_regulator(self, path: TargetPath, before: Sequence[float] = ()) -> EntropyRegulator:
        assert self.shaper.control is not None
        return EntropyRegulator(
            path.level,
            self.shaper.control.max_strength,
            self.shaper.control.gain,
            final=path.final,
            release_start=path.release_start,
            groups_per_rollout=self.args.groups_per_rollout,
            before=before,
        )

    def metrics(self) -> dict[str, float]:
        """Return the controller's numbers to be logged.

        These are the target and the setpoint (nats), the relative distance from the target, the strength, and the
        number of rollouts for which the target was out of reach. Until the level is known, only the strength is
        returned, which is 0. A target of 0 has no relative distance.
        """
        if self.regulator is None:
            return {"hold_entropy/strength": 0.0}
        metrics = {
            "hold_entropy/target": self.regulator.target,
            "hold_entropy/reference": self.regulator.setpoint,
            "hold_entropy/strength": self.regulator.strength,
            "hold_entropy/out_of_reach": float(self.regulator.rollouts_at_max),
        }
        if self.regulator.target > 0:
            metrics["hold_entropy/error"] = self.regulator.deviation
        return metrics

    # The checkpoint.

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the regulator and the settings of its path; empty until the level is known."""
        if self.regulator is None:
            return {}
        return self.regulator.state_dict() | {"settings": path_settings(self.args, self.release_start)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`]; an empty one resets to the start of a run.

        The initial entropy is restored before it, and the run's learning rates are known. Raises `ValueError` if a
        value is missing or invalid.
        """
        if not state:
            self.regulator = None
            self.shaper.strength = 0.0
            return
        saved = TargetPath.read(state)
        if self.args.hold_entropy_unit == "initial":
            # A level was known, so no larger number of first rollouts, under new batch sizes, is waited for.
            self.start.freeze()
        path = saved
        if self.unit is not None:
            path = continue_path(self._find_path(self.unit), state, self.args, self.release_start)
        regulator = self._make_regulator(path)
        regulator.load_state_dict(state)
        self.regulator = regulator
        self.shaper.strength = regulator.strength
        if not path.agrees_with(saved):
            logger.warning(
                "The entropy was held at %s when the checkpoint was saved, and will be held at %s. The "
                "entropy moves there from its present value.",
                *(saved.describe(), path.describe()),
            )
