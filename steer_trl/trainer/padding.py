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
from steer_trl.trainer.joined_pass import ForwardPass, PassInputs, run_joined, take_rows
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)


class Padding:
    """Runs forward passes. They have no padding if `is_skipped` is true."""

    def __init__(self, trainer: GRPOTrainer, is_wanted: bool, is_compiled: bool) -> None:
        self._trainer = trainer
        self._is_wanted = is_wanted
        self._is_compiled = is_compiled
        self._is_checked = False
        self._is_wrong = False

    @property
    def is_skipped(self) -> bool:
        """Whether forward passes run without padding. The value is the same on every rank."""
        return self._is_wanted and self._is_possible and not self._is_wrong

    @cached_property
    def _is_possible(self) -> bool:
        """Whether padding can be skipped for this model and its inputs. If not, the reason is logged once."""
        if self._is_compiled:
            reason = "a compiled model would be compiled anew for each width"
        elif isinstance(self._trainer.processing_class, ProcessorMixin):
            reason = "images cannot be cut"
        elif not self._reads_distances:
            reason = "this model depends on where its tokens are"
        else:
            return True
        logger.warning("skip_padding: padding stays, since %s.", reason)
        return False

    @property
    def _reads_distances(self) -> bool:
        """Whether the model depends only on the distances between tokens, so that rows may be moved to column 0."""
        text = self._trainer.model.config.get_text_config()
        # RecurrentGemma's recurrence reads the padding, which other recurrent models mask.
        has_chunks = getattr(text, "attention_chunk_size", None)
        rope = getattr(text, "rope_parameters", None)
        if not rope or has_chunks or text.model_type == "recurrent_gemma":
            return False
        # Some models have parameters for each kind of layer.
        rotations = [one for one in (rope, *rope.values()) if isinstance(one, dict)]
        # Ministral 3 scales its queries by absolute position.
        return not any(
            rotation.get("rope_type") in ("dynamic", "longrope") or rotation.get("llama_4_scaling_beta")
            for rotation in rotations
        )

    def forward(self, forward_pass: ForwardPass, model: Any, inputs: PassInputs) -> tuple[Any, ...]:
        """Return the outputs of `forward_pass`.

        If padding is skipped, the outputs `[B, T]` are 0 for padding tokens.
        """
        if self.is_skipped and not self._is_checked:
            self._check(forward_pass, inputs)
        if self.is_skipped:
            return run_joined(forward_pass, model, inputs, self._trainer.pad_to_multiple_of)
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
            joined = run_joined(forward_pass, model, some, self._trainer.pad_to_multiple_of)[0]
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
