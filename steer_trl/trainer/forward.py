"""The forward pass that every pass of a trainer goes through, whether TRL or this package asks for it."""

from collections.abc import Mapping
from typing import Any

from steer_trl.shaping import Shaper, reads_sensitivities
from steer_trl.trainer.head_pass import add_sensitivities
from steer_trl.trainer.inputs import Score
from steer_trl.trainer.padding import ForwardPass, Padding
from steer_trl.trainer.trl import GRPOTrainer


class Forward:
    """Runs TRL's forward pass without padding, and adds the exact sensitivities if they are wanted."""

    def __init__(self, trainer: GRPOTrainer, padding: Padding, shapers: Mapping[str, Shaper]) -> None:
        self._trainer, self._padding = trainer, padding
        self._must_have_sensitivities = reads_sensitivities(shapers)

    def run(
        self, forward_pass: ForwardPass, wants_sensitivities: bool, *args: Any, **kwargs: Any
    ) -> tuple[tuple[Any, ...], Score]:
        """Return the outputs of TRL's `forward_pass`, and the score `[B, T]` in them.

        With `wants_sensitivities` each pass of the policy is followed by one of its head. This is collective if the
        head's weights are sharded, so `wants_sensitivities` must be the same on every rank. If the pass of the head
        fails and only a diagnostic needs it, the sensitivities are NaN: the diagnostic then has the same keys on
        every rank and counts no token on this one.
        """
        if not wants_sensitivities:
            outputs = self._padding.forward(forward_pass, *args, **kwargs)
            return outputs, Score(outputs[0], outputs[1])
        forward_pass = add_sensitivities(self._trainer, forward_pass, self._must_have_sensitivities)
        outputs = self._padding.forward(forward_pass, *args, **kwargs)
        return outputs[:-1], Score(outputs[0], outputs[1], sensitivities=outputs[-1])
