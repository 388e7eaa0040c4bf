"""Runs every forward pass of a trainer, whether TRL or this package needs it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from trl.models.utils import disable_gradient_checkpointing

from steer_trl.shaping import Shaper, reads_sensitivities
from steer_trl.trainer.head_pass import add_sensitivities
from steer_trl.trainer.inputs import OLD_ENTROPIES, OLD_LOGPS, Score
from steer_trl.trainer.joined_pass import ForwardPass, PassInputs, take_rows
from steer_trl.trainer.padding import Padding
from steer_trl.trainer.trl import GRPOTrainer, is_first_step_of_rollout


class Forward:
    """Runs TRL's forward pass without padding, and computes exact entropy sensitivities if they are needed."""

    def __init__(self, trainer: GRPOTrainer, padding: Padding, shapers: Mapping[str, Shaper]) -> None:
        self._trainer = trainer
        self._padding = padding
        self._must_have_sensitivities = reads_sensitivities(shapers)

    def run(
        self,
        forward_pass: ForwardPass,
        wants_sensitivities: bool,
        model: Any,
        inputs: PassInputs,
        idle: dict[str, Any] | None = None,
    ) -> tuple[tuple[Any, ...], Score]:
        """Return the outputs of TRL's `forward_pass`, and a [`Score`] of the tokens.

        With `wants_sensitivities`, the score includes entropy sensitivities. For them, the policy's head runs once
        more after each pass of the policy. This extra pass is collective if the head's weights are sharded, so
        `wants_sensitivities` must be the same on every rank. If the extra pass fails and only a diagnostic needs it,
        the sensitivities are NaN. The diagnostic then still has the same keys on every rank, but counts no tokens of
        the rank on which the pass failed.

        `idle` is the micro-batch if all its completions have an advantage of 0, and otherwise `None`.
        """
        if wants_sensitivities:
            forward_pass = add_sensitivities(self._trainer, forward_pass, self._must_have_sensitivities)
        if idle is None:
            outputs = self._padding.forward(forward_pass, model, inputs)
        else:
            known = None if wants_sensitivities else self._known_outputs(idle)
            outputs = self._run_idle(forward_pass, model, inputs, known)
        if wants_sensitivities:
            return outputs[:-1], Score(outputs[0], outputs[1], sensitivities=outputs[-1])
        return outputs, Score(outputs[0], outputs[1])

    def _known_outputs(self, idle: dict[str, Any]) -> tuple[Any, ...] | None:
        """Return the stored log-probabilities and entropies of all rows but the last.

        Returns `None` if none are stored, or if the policy has been updated since they were computed.
        """
        if OLD_LOGPS not in idle or not is_first_step_of_rollout(self._trainer):
            return None
        return idle[OLD_LOGPS][:-1], idle[OLD_ENTROPIES][:-1], None

    def _run_idle(
        self, forward_pass: ForwardPass, model: Any, inputs: PassInputs, known: tuple[Any, ...] | None
    ) -> tuple[Any, ...]:
        """Return the outputs for completions whose advantages are all 0.

        Their loss and its gradient are 0. But DeepSpeed and similar engines need a backward pass, so the last
        completion, which is the shortest, runs with gradients enabled. The others run without gradients, because TRL
        logs their entropy. `known` holds the outputs of all completions but the last, if they were computed earlier.
        """
        trainer = self._trainer
        args = trainer.args
        if known is None and len(inputs["input_ids"]) > 1:
            others = take_rows(inputs, slice(-1)) | {"batch_size": args.per_device_train_batch_size}
            with torch.no_grad(), disable_gradient_checkpointing(trainer.model, args.gradient_checkpointing_kwargs):
                known = self._padding.forward(forward_pass, trainer.model, others)
        last = self._padding.forward(forward_pass, model, take_rows(inputs, slice(-1, None)))
        if known is None:
            return last
        return tuple(_stack(*pair) for pair in zip(known, last, strict=True))


def _stack(others: Tensor | None, last: Tensor | None) -> Tensor | None:
    if others is None or last is None:
        return last
    return torch.cat([others, last]) if last.dim() == 2 else last
