"""The controller of `hold_entropy`: the regulator in a run.

The controller receives the entropy of each new rollout after the methods have received it, and before any update on
that rollout. It then sets the strength of one method (`regulator.py`). The method defines the upper bound of its
strength and the gain of the regulator (`Shaper.control`).

Until the entropy falls below the target, the strength is 0 and the method has no effect. A relative level is a
multiple of the run's initial entropy (`start.py`). Until the initial entropy is known, the strength is 0 as well. If
all completions of each prompt get the same reward, all advantages are 0, and token weights cannot hold the entropy.
The strength then rises to its bound, `hold_entropy/out_of_reach` counts these rollouts, and an alarm is raised.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from steer_trl.entropy.learning import find_run_share
from steer_trl.entropy.regulator import EntropyRegulator
from steer_trl.entropy.start import StartEntropy
from steer_trl.entropy.target import FINAL_SHARE, RELEASE_AFTER, TargetPath
from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import Shaper

logger = logging.getLogger(__name__)

PATH_SETTINGS = ("hold_entropy_final", "hold_entropy_until", "hold_entropy_decay_start")
"""The settings of the path, apart from its level."""
SAME_LEVEL = 1e-9
"""Two levels count as the same up to this relative difference, because a level may be written in two units."""
SAME_SHARE = 0.01
"""Two shares of the run count as the same up to this difference, because they are rounded to the steps of a run."""


class HoldEntropy:
    """The controller of `hold_entropy`, which sets the strength of one method.

    Attributes:
        regulator (`EntropyRegulator`, *optional*): the regulator; `None` until the level is known in nats.
        release_start (`float`): the share of the run after which the target falls.
    """

    name = "hold_entropy"
    """The key under which a checkpoint saves the state of the controller."""

    def __init__(self, args: ShapingConfig, shapers: Mapping[str, Shaper], start: StartEntropy) -> None:
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

    def _find_path(self, unit: float) -> TargetPath:
        assert self.args.hold_entropy is not None
        level = self.args.hold_entropy * unit
        final = self.args.hold_entropy_final
        return TargetPath(level, FINAL_SHARE * level if final is None else final * unit, self.release_start)

    def _continue_path(self, path: TargetPath, state: Mapping[str, Any]) -> TargetPath:
        """Return the `path` of a resumed run, given the state in its checkpoint.

        At the same level, everything whose setting has not changed stays as it was written. The learning rates of the
        run are among the settings of the release, because they decide when a share of the learning is done.
        """
        written = TargetPath.read(state)
        # Checkpoints from before the target fell by default have no settings, and count as if none was set.
        settings = state.get("settings", {})
        same = {name for name in PATH_SETTINGS if settings.get(name) == getattr(self.args, name)}
        if abs(path.level - written.level) > SAME_LEVEL * written.level:
            return path
        if "hold_entropy_final" in same:
            path = path._replace(final=written.final)
        share = settings.get("release_start", self.release_start)
        has_same_rates = abs(share - self.release_start) <= SAME_SHARE
        if has_same_rates and same >= {"hold_entropy_until", "hold_entropy_decay_start"}:
            path = path._replace(release_start=written.release_start)
        return path

    # The strength.

    def on_rollout(self, entropy: float, progress: float) -> None:
        """Update the method's strength from a new rollout's mean entropy (nats, over all ranks).

        `progress` is the share of the run that is done, in [0, 1].
        """
        if self.regulator is None and self.unit is not None:
            self.regulator = self._make_regulator(self._find_path(self.unit))
        if self.regulator is not None:
            self.shaper.strength = self.regulator.update(entropy, progress)

    def _make_regulator(self, path: TargetPath) -> EntropyRegulator:
        assert self.shaper.control is not None
        control = self.shaper.control
        groups = self.args.groups_per_rollout
        return EntropyRegulator(path.level, control.max_strength, control.gain, *path[1:], groups)

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
        settings = {name: getattr(self.args, name) for name in PATH_SETTINGS}
        # What the settings and the learning rates give, which a path of an earlier checkpoint may not follow.
        settings["release_start"] = self.release_start
        return self.regulator.state_dict() | {"settings": settings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`]; an empty one resets to the start of a run.

        The level is known from then on, even if the run has other batch sizes now. Raises `ValueError` if a value is
        missing or invalid.
        """
        if not state:
            self.regulator = None
            self.shaper.strength = 0.0
            return
        written = TargetPath.read(state)
        if self.args.hold_entropy_unit == "initial":
            # A level was known, so the rollouts up to now were all that the initial entropy needs.
            self.start.settle()
        path = written if self.unit is None else self._continue_path(self._find_path(self.unit), state)
        regulator = self._make_regulator(path)
        regulator.load_state_dict(state)
        self.regulator = regulator
        self.shaper.strength = regulator.strength
        if path != written:
            logger.warning(
                "The entropy was held at %s when the checkpoint was saved, and will be held at %s. The "
                "entropy moves there from its present value.",
                *(written.describe(), path.describe()),
            )
