"""Passes the model without padding. TRL pads each row to the longest prompt and completion of its whole rollout.

Each row's tokens are moved to column 0, its completion right after its prompt, so a pass is as wide as its longest
row. Under causal attention a row never sees what stands to its right, so no mask is needed. The outputs are moved
back to where TRL expects them. This holds for rotary positions, which only depend on distances. With other positions
the columns on the left stay, and those on the right without any token go.

The first pass of a training is compared with TRL's own. If the log-probabilities differ by more than rounding,
padding stays.
"""

import logging
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import ProcessorMixin

from steer_trl.randomness import kept_random_state
from steer_trl.trainer.assignment import cut
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)

PER_TOKEN = {"token_type_ids"}
FLAGS = {"compute_entropy", "compute_aux_loss"}
COMPILED_MULTIPLE = 64
"""Widths of a compiled model are a multiple of this, so that few shapes are compiled."""

ForwardPass = Callable[..., tuple[Any, ...]]
"""TRL's forward pass: arguments as TRL's; log-probabilities, entropies `[B, T]`, and whatever else it returns."""


class Rows(NamedTuple):
    """Where the tokens of each row are: columns `begin` to `begin + length - 1`, all `[B]`.

    `prompt` counts those of them before the completion. `is_solid` states whether each of them is a token.
    """

    begin: Tensor
    length: Tensor
    prompt: Tensor
    is_solid: Tensor


class Pass(NamedTuple):
    """The `rows` of one pass, its `width`, the columns `kept` for the head, and whether the model needs a mask."""

    rows: Tensor
    width: int
    kept: int
    needs_mask: bool


class Padding:
    """Runs forward passes without padding if `is_skipped`."""

    def __init__(self, trainer: GRPOTrainer, is_wanted: bool, is_compiled: bool) -> None:
        self._trainer, self._is_wanted = trainer, is_wanted
        self.is_compiled = is_compiled
        self._is_checked = self._is_wrong = self._has_warned = False

    @cached_property
    def _is_known(self) -> bool:
        """Whether padding can be skipped for this model and its inputs; if not, the reason is logged once."""
        reasons = [f"this model's positions ({kind}) depend on it" for kind in sorted(self._positions_by_length)]
        if isinstance(self._trainer.processing_class, ProcessorMixin):
            reasons.append("images cannot be cut")
        if reasons:
            logger.warning("skip_padding: padding stays, since %s.", " and ".join(reasons))
        return not reasons

    @property
    def is_skipped(self) -> bool:
        """Whether passes are made without padding: the same on every rank, whatever its completions are."""
        return self._is_wanted and self._is_known and not self._is_wrong

    @cached_property
    def _rotations(self) -> list[dict[str, Any]]:
        """The parameters of the model's rotary positions, and of each kind of layer; empty if it has none."""
        rope = getattr(self._trainer.model.config.get_text_config(), "rope_parameters", None)
        return [one for one in (rope, *rope.values()) if isinstance(one, dict)] if rope else []

    @cached_property
    def _positions_by_length(self) -> set[str]:
        """The kinds of positions of the model that depend on how long its input is."""
        return {"dynamic", "longrope"} & {rope.get("rope_type") for rope in self._rotations}

    @cached_property
    def _joins(self) -> bool:
        """Whether rows may move to column 0: only if the model sees nothing but distances of tokens."""
        text = self._trainer.model.config.get_text_config()
        # Ministral 3 scales its queries by absolute position.
        scales_by_position = any(rope.get("llama_4_scaling_beta") for rope in self._rotations)
        # RecurrentGemma's recurrence reads the padding, which other recurrent models mask.
        reads_padding = text.model_type == "recurrent_gemma"
        has_chunks = bool(getattr(text, "attention_chunk_size", None))
        return bool(self._rotations) and not (scales_by_position or reads_padding or has_chunks)

    @cached_property
    def _multiple(self) -> int:
        return self._trainer.pad_to_multiple_of or (COMPILED_MULTIPLE if self.is_compiled else 1)

    def forward(
        self,
        forward_pass: ForwardPass,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **inputs: Any,
    ) -> tuple[Any, ...]:
        """Return the outputs of `forward_pass`. Those of two dimensions are per token `[B, T]`, and 0 at padding."""
        given = {name for name, value in inputs.items() if value is not None} - FLAGS
        arguments = (forward_pass, model, input_ids, attention_mask, logits_to_keep)
        can_move = self._can_move(given)
        if self.is_skipped and can_move and not self._is_checked:
            self._check(forward_pass, *arguments[2:], **inputs)
        if not self.is_skipped or not can_move:
            return forward_pass(model, input_ids, attention_mask, logits_to_keep, batch_size, **inputs)
        return self._forward(*arguments, batch_size, **inputs)

    def _can_move(self, given: set[str]) -> bool:
        """Whether it is known how to move the inputs that are `given`; a first one that is unknown is logged."""
        unknown = sorted(given - PER_TOKEN)
        if unknown and self.is_skipped and not self._has_warned:
            self._has_warned = True
            logger.warning("skip_padding: padding stays, since it is not known how to move %s.", " and ".join(unknown))
        return not unknown

    def _forward(
        self,
        forward_pass: ForwardPass,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **inputs: Any,
    ) -> tuple[Any, ...]:
        rows = self._find_rows(attention_mask, logits_to_keep)
        order, passes = self._plan(rows, batch_size, bool(inputs.get("compute_aux_loss")))
        parts = []
        for one in passes:
            begin, length, prompt, _ = (x[one.rows, None] for x in rows)
            places = torch.arange(one.width, device=input_ids.device)
            columns = (begin + places).clamp(max=input_ids.size(1) - 1)
            moved = {
                name: inputs[name][one.rows].gather(1, columns)
                for name in PER_TOKEN & inputs.keys()
                if inputs[name] is not None
            }
            ids = input_ids[one.rows].gather(1, columns)
            mask = torch.ones_like(ids)
            if one.needs_mask:
                mask = attention_mask[one.rows].gather(1, columns) * (places < length)
            outputs = forward_pass(model, ids, mask, one.kept, None, **inputs | moved)
            tokens = torch.arange(logits_to_keep, device=input_ids.device)
            sources = (prompt - (one.width - one.kept) + tokens).clamp(max=one.kept - 1)
            is_written = tokens < length - prompt
            parts.append([_move_back(x, sources, is_written) for x in outputs])
        places_of_rows = order.argsort()
        return tuple(_join(list(of_parts), places_of_rows) for of_parts in zip(*parts, strict=True))

    def _find_rows(self, mask: Tensor, logits_to_keep: int) -> Rows:
        width = mask.size(1)
        prompt = width - logits_to_keep
        tokens = mask.sum(1)
        # The column before a completion gives its first token's log-probability, also if the prompt is empty.
        first = mask.argmax(1).clamp(max=prompt - 1)
        begin = first if self._joins else torch.zeros_like(first)
        end = torch.where(tokens > 0, width - mask.flip(1).argmax(1), 0)
        # TRL's head needs two columns.
        length = (end - begin).clamp(min=2)
        return Rows(begin, length, prompt - begin, tokens == length)

    def _plan(self, rows: Rows, batch_size: int | None, has_aux_loss: bool) -> tuple[Tensor, list[Pass]]:
        """Return the order of the rows, and the passes they make in it. Waits for the device once."""
        size = len(rows.length)
        is_split = batch_size is not None and batch_size < size
        order = torch.arange(size, device=rows.length.device)
        if is_split:
            order = rows.length.argsort(descending=True, stable=True)
        numbers = torch.stack([rows.length, rows.prompt, rows.is_solid.long()])[:, order].tolist()
        sizes = [size]
        if batch_size is not None and is_split:
            sizes = self._sizes(numbers[0], batch_size)
        passes = []
        begin = 0
        for chosen in order.split(sizes):
            lengths, prompts, solid = (of_rows[begin : begin + len(chosen)] for of_rows in numbers)
            width = self._round(max(lengths))
            kept = min(self._round(max(width - min(prompts), 1)), width - 1)
            passes.append(Pass(chosen, width, kept, has_aux_loss or not self._joins or not all(solid)))
            begin += len(chosen)
        return order, passes

    def _sizes(self, lengths: list[int], batch_size: int) -> list[int]:
        count = -(-len(lengths) // batch_size)
        if self.is_compiled:
            return [batch_size] * (count - 1) + [len(lengths) - batch_size * (count - 1)]
        return cut(lengths, count, batch_size * lengths[0])

    def _round(self, length: int) -> int:
        return -(-length // self._multiple) * self._multiple

    @torch.no_grad()
    def _check(
        self,
        forward_pass: ForwardPass,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        **inputs: Any,
    ) -> None:
        """Compare a micro-batch's log-probabilities with those of TRL's pass. Collective, once a training.

        Rounding is taken to be at most the square root of the precision, as a mean over tokens.
        """
        trainer = self._trainer
        model = trainer.model
        # rows whose tokens begin at different columns
        order = attention_mask.argmax(1).argsort()
        size = min(trainer.args.per_device_train_batch_size, len(order))
        some = order[torch.linspace(0, len(order) - 1, size, device=order.device).long()]
        ids, mask = input_ids[some], attention_mask[some]
        inputs |= {name: inputs[name][some] for name in PER_TOKEN if inputs.get(name) is not None}
        was_training = model.training
        # without dropout, which would differ between the two passes
        model.eval()
        with kept_random_state(trainer.accelerator.device):
            padded = forward_pass(model, ids, mask, logits_to_keep, None, **inputs)[0]
            joined = self._forward(forward_pass, model, ids, mask, logits_to_keep, **inputs)[0]
        model.train(was_training)
        is_token = mask[:, -logits_to_keep:].bool()
        differences = torch.where(is_token, (padded - joined).float(), 0.0).abs()
        total, tokens = trainer.accelerator.reduce(
            torch.stack([differences.sum(), is_token.sum().float()]), reduction="sum"
        ).tolist()
        if not tokens:
            return
        self._is_checked = True
        dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16}
        dtype = dtypes.get(trainer.accelerator.mixed_precision, trainer.model.dtype)
        # NaN is no difference that could be told from an error
        self._is_wrong = not total / tokens <= math.sqrt(torch.finfo(dtype).eps)
        if self._is_wrong:
            logger.warning(
                "skip_padding: padding stays, since without it this model's log-probabilities differ by %.2g nats per "
                "token, which is more than rounding.",
                total / tokens,
            )


def _move_back(output: Tensor | None, sources: Tensor, is_written: Tensor) -> Tensor | None:
    """Move an output of each token from its column in a pass to that in the completion."""
    if output is None or output.dim() != 2:
        return output
    return torch.where(is_written, output.gather(1, sources), 0.0)


def _join(parts: list[Tensor | None], places: Tensor) -> Tensor | None:
    """Join an output of several passes: the rows in their own order, or TRL's mean of a scalar."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    if found[0].dim() == 2:
        return torch.cat(found)[places]
    return torch.stack(found).mean()
