"""Runs every forward pass of a trainer, whether TRL or this package needs it."""

from typing import Any

from steer_trl.shaping import Reads
from steer_trl.trainer.forward.decision import Padding
from steer_trl.trainer.forward.head_pass import add_sensitivities
from steer_trl.trainer.inputs import ForwardPass, PassInputs, Score
from steer_trl.trainer.trl import GRPOTrainer


class Forward:
    """Runs TRL's forward pass without padding, and computes exact entropy sensitivities if they are needed."""

    def __init__(self, trainer: GRPOTrainer, padding: Padding, reads: Reads) -> None:
        self._trainer = trainer
        self._padding = padding
        self._must_have_sensitivities = reads.sensitivities

    def run(
        self, forward_pass: ForwardPass, wants_sensitivities: bool, model: Any, inputs: PassInputs
    ) -> tuple[tuple[Any, ...], Score]:
        """Return the outputs of TRL's `forward_pass`, and a [`Score`] of the tokens.

        With `wants_sensitivities`, the score includes entropy sensitivities. For them, the policy's head runs once
        more after each pass of the policy. This extra pass is collective if the head's weights are sharded, so
        `wants_sensitivities` must be the same on every rank. If the extra pass fails and only a diagnostic needs it,
        the sensitivities are NaN. The diagnostic then still has the same keys on every rank, but counts no tokens of
        the rank on which the pass failed.
        """
        if not wants_sensitivities:
            outputs = self._padding.forward(forward_pass, model, inputs)
            return outputs, Score(outputs[0], outputs[1])
        with_head = add_sensitivities(self._trainer, forward_pass, self._must_have_sensitivities)
        *outputs_of_trl, sensitivities = self._padding.forward(with_head, model, inputs)
        return tuple(outputs_of_trl), Score(outputs_of_trl[0], outputs_of_trl[1], sensitivities)
