"""The forward pass that every pass of a trainer goes through, whether TRL or this package asks for it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from trl.models.utils import disable_gradient_checkpointing

from steer_trl.shaping import Shaper, reads_sensitivities
from steer_trl.trainer.head_pass import add_sensitivities
from steer_trl.trainer.inputs import IS_IDLE, OLD_ENTROPIES, OLD_LOGPS, Score
from steer_trl.trainer.padding import ForwardPass, Padding
from steer_trl.trainer.trl import GRPOTrainer, is_first_step_of_rollout


class Forward:
    """Runs TRL's forward pass without padding, and adds the exact sensitivities if they are wanted."""

    def __init__(self, trainer: GRPOTrainer, padding: Padding, shapers: Mapping[str, Shaper]) -> None:
        self._trainer, self._padding = trainer, padding
        self._must_have_sensitivities = reads_sensitivities(shapers)
        self._idle: dict[str, Any] | None = None

    @contextmanager
    def of_loss(self, inputs: dict[str, Any]) -> Iterator[None]:
        """Let the forward pass inside be that of a loss on `inputs`."""
        self._idle = inputs if inputs.get(IS_IDLE) else None
        try:
            yield
        finally:
            self._idle = None

    def run(
        self, forward_pass: ForwardPass, wants_sensitivities: bool, *args: Any, **kwargs: Any
    ) -> tuple[tuple[Any, ...], Score]:
        """Return the outputs of TRL's `forward_pass`, and the score `[B, T]` in them.

        With `wants_sensitivities` each pass of the policy is followed by one of its head. This is collective if the
        head's weights are sharded, so `wants_sensitivities` must be the same on every rank. If the pass of the head
        fails and only a diagnostic needs it, the sensitivities are NaN: the diagnostic then has the same keys on
        every rank and counts no token on this one.
        """
        if wants_sensitivities:
            forward_pass = add_sensitivities(self._trainer, forward_pass, self._must_have_sensitivities)
        if self._idle is None:
            outputs = self._padding.forward(forward_pass, *args, **kwargs)
        else:
            outputs = self._run_idle(forward_pass, wants_sensitivities, *args, **kwargs)
        if wants_sensitivities:
            return outputs[:-1], Score(outputs[0], outputs[1], sensitivities=outputs[-1])
        return outputs, Score(outputs[0], outputs[1])

    def _run_idle(
        self,
        forward_pass: ForwardPass,
        wants_sensitivities: bool,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **inputs: Any,
    ) -> tuple[Any, ...]:
        """Return the outputs of completions without an advantage; only the last one's, the shortest, have a gradient.

        Their loss is 0 and so is its gradient, but all engines need a backward pass, and TRL logs their entropy.
        """
        per_row = {name: x for name, x in inputs.items() if isinstance(x, Tensor)}

        def run(model: Any, rows: slice, size: int | None) -> tuple[Any, ...]:
            given = inputs | {name: x[rows] for name, x in per_row.items()}
            return self._padding.forward(
                forward_pass, model, input_ids[rows], attention_mask[rows], logits_to_keep, size, **given
            )

        trainer = self._trainer
        args = trainer.args
        others = self._known_score() if not wants_sensitivities else None
        if others is None and len(input_ids) > 1:
            with torch.no_grad(), disable_gradient_checkpointing(trainer.model, args.gradient_checkpointing_kwargs):
                others = run(trainer.model, slice(-1), args.per_device_train_batch_size)
        last = run(model, slice(-1, None), None)
        if others is None:
            return last
        return tuple(_stack(*pair) for pair in zip(others, last, strict=True))

    def _known_score(self) -> tuple[Any, ...] | None:
        """Return the rollout's score of all but the last row, if no update has changed the policy since."""
        known = self._idle
        if known is None or OLD_LOGPS not in known or not is_first_step_of_rollout(self._trainer):
            return None
        return known[OLD_LOGPS][:-1], known[OLD_ENTROPIES][:-1], None


def _stack(others: Tensor | None, last: Tensor | None) -> Tensor | None:
    if others is None or last is None:
        return last
    return torch.cat([others, last]) if last.dim() == 2 else last
