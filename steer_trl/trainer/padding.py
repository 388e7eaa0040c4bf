"""Runs the model without padding. TRL pads each row to the longest prompt and completion of its whole rollout.

Each row's tokens are moved to the left: the prompt begins in column 0, and the completion follows directly. A pass is
then only as wide as its longest row. In causal attention no token sees the columns to its right, so no mask is needed.
The outputs are moved back to where TRL expects them. This is correct for rotary positions, which depend only on
distances. With other positions, only the columns on the right that have no token are removed.

The first pass of a trainer is compared with TRL's padded pass. If the log-probabilities differ by more than rounding,
padding is not removed.
"""

import logging
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers import ProcessorMixin

from steer_trl.randomness import keep_random_state
from steer_trl.trainer.assignment import cut
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)

PER_TOKEN = {"input_ids", "attention_mask", "token_type_ids"}
"""The inputs of a forward pass that have a value for every token. They are moved together with the tokens."""
OTHERS = {"logits_to_keep", "batch_size", "compute_entropy", "compute_aux_loss"}
COMPILED_MULTIPLE = 64
"""For a compiled model, the width of each pass is a multiple of this, so that few shapes are compiled."""

PassInputs = dict[str, Any]
"""The arguments of a forward pass except the model, under the names that TRL gives them."""
ForwardPass = Callable[..., tuple[Any, ...]]
"""TRL's forward pass, which takes a model and [`PassInputs`]. It returns log-probabilities and entropies `[B, T]`,
followed by other outputs.
"""


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
            return self._forward(forward_pass, model, inputs)
        return forward_pass(model, **inputs)

    def _forward(self, forward_pass: ForwardPass, model: Any, inputs: PassInputs) -> tuple[Any, ...]:
        mask = inputs["attention_mask"]
        completion_width = inputs["logits_to_keep"]
        prompt_width = mask.size(1) - completion_width
        per_token = {name: inputs[name] for name in PER_TOKEN if inputs.get(name) is not None}
        needs_mask = bool(inputs.get("compute_aux_loss")) or not self._joins
        begin, length = self._find_tokens(mask, prompt_width)
        of_prompt = prompt_width - begin
        passes = self._plan(length, of_prompt, inputs.get("batch_size"))
        parts = []
        for rows, width, kept in passes:
            places = torch.arange(width, device=mask.device)
            columns = (begin[rows, None] + places).clamp(max=mask.size(1) - 1)
            moved = {name: x[rows].gather(1, columns) for name, x in per_token.items()}
            has_token = moved["attention_mask"] * (places < length[rows, None])
            moved["attention_mask"] = has_token if needs_mask else torch.ones_like(has_token)
            outputs = forward_pass(model, **inputs | moved | {"logits_to_keep": kept, "batch_size": None})

            tokens = torch.arange(completion_width, device=mask.device)
            sources = (of_prompt[rows, None] - (width - kept) + tokens).clamp(max=kept - 1)
            is_written = tokens < (length - of_prompt)[rows, None]
            parts.append([_move_back(x, sources, is_written) for x in outputs])
        places_of_rows = torch.cat([rows for rows, *_ in passes]).argsort()
        return tuple(_join(list(of_parts), places_of_rows) for of_parts in zip(*parts, strict=True))

    def _find_tokens(self, mask: Tensor, prompt_width: int) -> tuple[Tensor, Tensor]:
        """Return the first column and the number of columns to keep for each of B rows, both `[B]`."""
        # The column before a completion is kept even if the prompt is empty, because it predicts the first token.
        first = mask.argmax(1).clamp(max=prompt_width - 1)
        begin = first if self._joins else torch.zeros_like(first)
        end = torch.where(mask.any(1), mask.size(1) - mask.flip(1).argmax(1), 0)
        # TRL's head needs at least two columns.
        return begin, (end - begin).clamp(min=2)

    def _plan(self, length: Tensor, of_prompt: Tensor, batch_size: int | None) -> list[tuple[Tensor, int, int]]:
        """Return the rows of each pass, its width, and the number of columns on which the head runs.

        The rows are sorted by length if there are several passes. The CPU waits for the accelerator only once.
        """
        size = len(length)
        batch_size = min(batch_size or size, size)
        order = torch.arange(size, device=length.device)
        if batch_size < size:
            order = length.argsort(descending=True, stable=True)
        lengths, of_prompts = torch.stack([length, of_prompt])[:, order].tolist()
        sizes = self._sizes(lengths, batch_size) if batch_size < size else [size]
        passes = []
        first = 0
        for rows in order.split(sizes):
            last = first + len(rows)
            width = self._round(max(lengths[first:last]))
            kept = self._round(max(width - min(of_prompts[first:last]), 1))
            passes.append((rows, width, min(kept, width - 1)))
            first = last
        return passes

    def _sizes(self, lengths: list[int], batch_size: int) -> list[int]:
        """Return the number of rows of each pass.

        There are as many passes as if each of them had `batch_size` rows.
        """
        count = -(-len(lengths) // batch_size)
        if self.is_compiled:
            return [batch_size] * (count - 1) + [len(lengths) - batch_size * (count - 1)]
        return cut(lengths, count, batch_size * lengths[0])

    def _round(self, width: int) -> int:
        """Round `width` up to the multiple that TRL pads to, or to [`COMPILED_MULTIPLE`] for a compiled model."""
        multiple = self._trainer.pad_to_multiple_of or (COMPILED_MULTIPLE if self.is_compiled else 1)
        return -(-width // multiple) * multiple

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
            joined = self._forward(forward_pass, model, some)[0]
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


def take_rows(inputs: PassInputs, rows: Tensor | slice) -> PassInputs:
    """Return the inputs of a forward pass for only the sequences in `rows`.

    Tensors must have one row per sequence.
    """
    return {name: x[rows] if isinstance(x, Tensor) else x for name, x in inputs.items()}


def _move_back(output: Tensor | None, sources: Tensor, is_written: Tensor) -> Tensor | None:
    """Move the outputs for each token from its column in the pass to its column in the completion."""
    if output is None or output.dim() != 2:
        return output
    return torch.where(is_written, output.gather(1, sources), 0.0)


def _join(parts: list[Tensor | None], places: Tensor) -> Tensor | None:
    """Join an output of several passes.

    Rows return to their original order; scalars are averaged, as in TRL.
    """
    found = [part for part in parts if part is not None]
    if not found:
        return None
    if found[0].dim() == 2:
        return torch.cat(found)[places]
    return torch.stack(found).mean()
