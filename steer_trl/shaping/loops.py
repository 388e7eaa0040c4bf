"""What a loop is: it changes no advantage itself, and moves between rollouts what does.

Loops stand in a list beside the methods. Of a new rollout the methods are told first and the loops then, so a loop
has the last word on what it moves.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.hold import HoldEntropy


@runtime_checkable
class Loop(Protocol):
    """What moves a method, or a setting of the loss, by the entropy of the rollouts."""

    name: str
    """Its key in the checkpoint."""

    def on_rollout(self, entropy: float, progress: float) -> None:
        """Take the mean entropy (nats) of a new training rollout over all ranks, before any update with it.

        `progress` is the share of the training's optimizer steps that are done, in [0, 1].
        """

    def level(self, progress: float) -> float | None:
        """Return the entropy (nats) that it holds after such a share of the training; `None` if not yet known."""

    def metrics(self) -> dict[str, float]:
        """Return its numbers for the log, one entry per optimizer step."""

    def state_dict(self) -> dict[str, Any]:
        """Return what moves during training, as plain numbers; it is saved with every checkpoint."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`]."""


def make_loops(args: ShapingConfig, shapers: Mapping[str, Shaper]) -> list[Loop]:
    """Make the loops that `args` asks for, which move `shapers`."""
    return [HoldEntropy(args, shapers)] if args.hold_entropy is not None else []
