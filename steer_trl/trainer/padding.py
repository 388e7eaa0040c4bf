"""Decides whether the model runs without padding (`joined_pass.py`).

The first pass of a trainer is compared with TRL's padded pass. If the log-probabilities differ by more than rounding,
padding is not removed.
"""

import logging
import math
from functools import cached_property
from typing import Any

import torch
from transformers import ProcessorMixin

from steer_trl.randomness import keep_random_state
from steer_trl.trainer.joined_pass import PER_TOKEN, ForwardPass, Layout, PassInputs, run_joined, take_rows
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)

OTHERS = {"logits_to_keep", "batch_size", "compute_entropy", "compute_aux_loss"}
"""The inputs of a forward pass that do not depend on where its tokens are."""
COMPILED_MULTIPLE = 64
"""For a compiled model, the width of each pass is a multiple of this, so that few shapes are compiled."""


class Padding:
    """Runs forward passes. They have no padding if `is_skipped` is true."""

    def __init__(self, trainer: GRPOTrainer, is_wanted: bool, is_compiled: bool) -> None:
        self._trainer = trainer
        self._is_wanted = is_wanted
        self.is_compiled = is_compiled
        self._is_checked = self._is_wrong = self._has_warned = False

    # The models and inputs for which padding can be skipped.

    @property
    def is_skipped(self) -> bool:
        """Whether forward passes run without padding. The value is the same on every rank."""
        return self._is_wanted and self._is_known and not self._is_wrong

    @cached_property
    def _is_known(self) -> bool:
        """Whether padding can be skipped for this model and its inputs. If not, the reason is logged once."""
        kinds = {"dynamic", "longrope"} & {rope.get("rope_type") for rope in self._rotations}
        reasons = [f"this model's positions ({kind}) depend on it" for kind in sorted(kinds)]
        if isinstance(self._trainer.processing_class, ProcessorMixin):
            reasons.append("images cannot be cut")
        if reasons:
            logger.warning("skip_padding: padding stays, since %s.", " and ".join(reasons))
        return not reasons

    @cached_property
    def _rotations(self) -> list[dict[str, Any]]:
        """The parameters of the rotary positions, for the model and each kind of layer.

        The list is empty if the model has no rotary positions.
        """
        rope = getattr(self._trainer.model.config.get_text_config(), "rope_parameters", None)
        return [one for one in (rope, *rope.values()) if isinstance(one, dict)] if rope else []

    @cached_property
    def _joins(self) -> bool:
        """Whether rows may be moved to column 0.

        They may if the model depends only on the distances between tokens.
        """
        text = self._trainer.model.config.get_text_config()
        # Ministral 3 scales its queries by absolute position.
        scales_by_position = any(rope.get("llama_4_scaling_beta") for rope in self._rotations)
        # RecurrentGemma's recurrence reads the padding, which other recurrent models mask.
        reads_padding = text.model_type == "recurrent_gemma"
        has_chunks = bool(getattr(text, "attention_chunk_size", None))
        return bool(self._rotations) and not (scales_by_position or reads_padding or has_chunks)

    @cached_property
    def _layout(self) -> Layout:
        """How the rows of this model's passes may lie."""
        multiple = self._trainer.pad_to_multiple_of or (COMPILED_MULTIPLE if self.is_compiled else 1)
        return Layout(begins_left=self._joins, is_even=self.is_compiled, multiple=multiple)

    def _can_move(self, inputs: PassInputs) -> bool:
        """Return whether all `inputs` can be moved together with the tokens.

        The first time that an input cannot be moved, a warning is logged.
        """
        given = {name for name, value in inputs.items() if value is not None}
        unknown = sorted(given - PER_TOKEN - OTHERS)
        if unknown and not self._has_warned:
            self._has_warned = True
            logger.warning("skip_padding: padding stays, since it is not known how to move %s.", " and ".join(unknown))
        return not unknown

    # One forward pass.

    def forward(self, forward_pass: ForwardPass, model: Any, inputs: PassInputs) -> tuple[Any, ...]:
        """Return the outputs of `forward_pass`.

        If padding is skipped, the outputs `[B, T]` are 0 for padding tokens.
        """
        can_move = self.is_skipped and self._can_move(inputs)
        if can_move and not self._is_checked:
            self._check(forward_pass, inputs)
        if can_move and self.is_skipped:
            return run_joined(forward_pass, model, inputs, self._layout)
        return forward_pass(model, **inputs)

    @torch.no_grad()
    def _check(self, forward_pass: ForwardPass, inputs: PassInputs) -> None:
        """Compare log-probabilities computed without padding with those of TRL's padded pass. Collective.

        This is done for one micro-batch per trainer. A mean difference per token up to the square root of the machine
        precision counts as rounding.
        """
        trainer = self._trainer
        model = trainer.model
        accelerator = trainer.accelerator
        # The chosen rows have prompts of different lengths, so their tokens begin at different columns.
        order = inputs["attention_mask"].argmax(1).argsort()
        size = min(trainer.args.per_device_train_batch_size, len(order))
        chosen = order[torch.linspace(0, len(order) - 1, size, device=order.device).long()]
        some = take_rows(inputs, chosen) | {"batch_size": None}
        was_training = model.training
        # Dropout is off, because it would differ between the two passes.
        model.eval()
        with keep_random_state(accelerator.device):
            padded = forward_pass(model, **some)[0]
            joined = run_joined(forward_pass, model, some, self._layout)[0]
        model.train(was_training)
        is_token = some["attention_mask"][:, -inputs["logits_to_keep"] :].bool()
        differences = torch.where(is_token, (padded - joined).float(), 0.0).abs()
        sums = torch.stack([differences.sum(), is_token.sum().float()])
        total, tokens = accelerator.reduce(sums, reduction="sum").tolist()
        if not tokens:
            return
        self._is_checked = True
        of_mixed = {"bf16": torch.bfloat16, "fp16": torch.float16}
        precision = torch.finfo(of_mixed.get(accelerator.mixed_precision, model.dtype)).eps
        # The comparison is negated, so that NaN counts as wrong.
        self._is_wrong = not total / tokens <= math.sqrt(precision)
        if self._is_wrong:
            logger.warning(
                "skip_padding: padding stays, since without it this model's log-probabilities differ by %.2g nats per "
                "token, which is more than rounding.",
                total / tokens,
            )
