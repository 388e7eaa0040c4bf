"""No padding is computed. TRL pads each micro-batch to the longest prompt and the longest completion of its rollout.

    forward   a pass is given only the columns in which one of its rows has a token, and its outputs are put back; a
              pass in chunks (the score of a rollout) takes rows of like length together
    ordered   the completions of an optimizer step are dealt to its micro-batches by length, the longest first, so
              that a step that does not fit into memory fails at once

The update is TRL's but for the rounding of floating-point numbers. Completions are ordered where the loss does not
depend on how a step is split: not with the loss `"bnpo"`, `top_entropy_quantile`, an entropy bonus, a router's
auxiliary loss, or a method whose `shaping_scope` is `"micro_batch"`. With images, all stays as TRL makes it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from steer_trl.options.trl import LOSSES
from steer_trl.shaping import Shaper
from steer_trl.trainer.inputs import loss_mask
from steer_trl.trainer.trl import (
    GRPOTrainer,
    continue_rollout,
    means_of_tokens,
    micro_batches_done,
    micro_batches_of_rollout,
    micro_batches_of_step,
    weigh_last,
)

logger = logging.getLogger(__name__)

PER_TOKEN = {"token_type_ids"}
FLAGS = {"compute_entropy", "compute_aux_loss"}
COMPILED_MULTIPLE = 64
"""Columns of a compiled model are a multiple of this, so that few shapes are compiled."""

ForwardPass = Callable[..., tuple[Any, ...]]
"""TRL's forward pass: arguments as TRL's; log-probabilities, entropies `[B, T]`, and whatever else it returns."""


class Padding:
    """What a trainer knows of the padding of its rollouts."""

    def __init__(
        self, trainer: GRPOTrainer, is_skipped: bool, shapers: Mapping[str, Shaper], is_compiled: bool
    ) -> None:
        self._trainer, self._is_skipped, self._has_warned = trainer, is_skipped, False
        self._shapers, self._is_compiled = shapers, is_compiled
        self._ordered: list[dict[str, Any]] | None = None
        self._shares: list[float] = []

    @cached_property
    def _cuts_left(self) -> bool:
        """Whether columns before the first token may go: only if the model sees nothing but distances of tokens."""
        text = self._trainer.model.config.get_text_config()
        # Ministral 3 scales its queries by absolute position.
        scales_by_position = any(rope.get("llama_4_scaling_beta") for rope in self._rotations)
        # RecurrentGemma's recurrence reads the padding, which other recurrent models mask.
        reads_padding = text.model_type == "recurrent_gemma"
        has_chunks = bool(getattr(text, "attention_chunk_size", None))
        return bool(self._rotations) and not (scales_by_position or reads_padding or has_chunks)

    @cached_property
    def _positions_by_length(self) -> set[str]:
        """The kinds of positions of the model that depend on how long its input is."""
        return {"dynamic", "longrope"} & {rope.get("rope_type") for rope in self._rotations}

    @cached_property
    def _rotations(self) -> list[dict[str, Any]]:
        """The parameters of the model's rotary positions, and of each kind of layer; empty if it has none."""
        rope = getattr(self._trainer.model.config.get_text_config(), "rope_parameters", None)
        return [one for one in (rope, *rope.values()) if isinstance(one, dict)] if rope else []

    @cached_property
    def _multiple(self) -> int:
        return self._trainer.pad_to_multiple_of or (COMPILED_MULTIPLE if self._is_compiled else 1)

    @cached_property
    def _orders(self) -> bool:
        """Whether the loss is the same however an optimizer step is split."""
        args, shapers = self._trainer.args, self._shapers
        accumulation, per_rollout = args.gradient_accumulation_steps, args.steps_per_generation
        depends_on_the_split = (
            args.loss_type not in LOSSES
            or LOSSES[args.loss_type].averages_over == "micro-batch tokens"
            or args.top_entropy_quantile < 1
            or args.entropy_coef != 0
            or args.use_adaptive_entropy
            or any(shaper.answers("entropy_coef") for shaper in shapers.values())
            or self._trainer.aux_loss_enabled
            or (bool(shapers) and args.shaping_scope == "micro_batch")
            or (per_rollout % accumulation != 0 and accumulation % per_rollout != 0)
        )
        return self._skips(set()) and not depends_on_the_split

    def _skips(self, given: set[str]) -> bool:
        """Whether columns can be cut from the inputs that are `given`; if not, that is stated once.

        Without inputs the answer depends on the model only, and is the same on every rank.
        """
        if not self._is_skipped:
            return False
        reasons = [f"this model's positions ({kind}) depend on it" for kind in self._positions_by_length]
        reasons += [f"it is not known how to cut {name}" for name in sorted(given - PER_TOKEN)]
        if reasons and not self._has_warned:
            self._has_warned = True
            logger.warning("skip_padding: padding stays, since %s.", " and ".join(reasons))
        return not reasons

    # A forward pass.

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
        """Return what `forward_pass` does, whose outputs of two dimensions are per token `[B, T]`; 0 at padding."""
        given = {name for name, value in inputs.items() if value is not None} - FLAGS
        if not self._skips(given):
            return forward_pass(model, input_ids, attention_mask, logits_to_keep, batch_size, **inputs)
        size = len(input_ids)
        order = torch.arange(size, device=input_ids.device)
        if batch_size is not None and batch_size < size:
            order = attention_mask.sum(1).argsort(descending=True, stable=True)
        parts = []
        for rows in order.split(batch_size or size):
            columns, kept = self._columns(attention_mask[rows], logits_to_keep)
            ids, mask = input_ids[rows][:, columns], attention_mask[rows][:, columns]
            cut = {name: inputs[name][rows][:, columns] for name in PER_TOKEN & given}
            out = forward_pass(model, ids, mask, kept, None, **inputs | cut)
            parts.append([_widened(x, logits_to_keep) for x in out])
        places = order.argsort()
        return tuple(_joined(list(of_parts), places) for of_parts in zip(*parts, strict=True))

    def _columns(self, mask: Tensor, logits_to_keep: int) -> tuple[slice, int]:
        """The columns with a token of some row, and how many of them are of completions: one at least."""
        width, prompt = mask.size(1), mask.size(1) - logits_to_keep
        used = mask.any(0).nonzero().flatten()
        first = int(used[0]) if self._cuts_left and len(used) else 0
        last = int(used[-1]) if len(used) else width - 1
        of_prompt = min(self._rounded(prompt - min(first, prompt - 1)), prompt)
        kept = min(self._rounded(max(last + 1 - prompt, 1)), logits_to_keep)
        return slice(prompt - of_prompt, prompt + kept), kept

    def _rounded(self, length: int) -> int:
        return -(-length // self._multiple) * self._multiple

    # A rollout.

    def ordered(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Order a rollout that TRL has just split; return the micro-batch to train on. Collective for a new one."""
        trainer = self._trainer
        if not (self._orders and trainer.model.training):
            return inputs
        rollout = micro_batches_of_rollout(trainer)
        if rollout is not self._ordered:
            count = micro_batches_of_step(trainer)
            steps = [rollout[i : i + count] for i in range(0, len(rollout), count)]
            rollout = self._ordered = [one for step in steps for one in _by_length(step)]
            continue_rollout(trainer, micro_batches_done(trainer), rollout)
            tokens = torch.stack([loss_mask(one).sum() for one in rollout])
            self._shares = list(_shares(trainer.accelerator.reduce(tokens, reduction="sum").split(count)))
        return rollout[micro_batches_done(trainer) % len(rollout)]

    def loss_logged(self) -> None:
        """Weigh what TRL has just logged of an ordered micro-batch, so that its log has the mean over the tokens."""
        if self._orders and self._trainer.model.training:
            share = self._shares[micro_batches_done(self._trainer) % len(self._shares)]
            weigh_last(self._trainer, means_of_tokens(self._trainer), share)


def _widened(output: Tensor | None, width: int) -> Tensor | None:
    return output if output is None or output.dim() != 2 else pad(output, (0, width - output.size(1)))


def _joined(parts: list[Tensor | None], places: Tensor) -> Tensor | None:
    """An output of the whole pass, from that of its chunks: rows where they were, or TRL's mean of a scalar."""
    found = [part for part in parts if part is not None]
    if len(found) < 2:
        return parts[0]
    return torch.cat(found)[places] if found[0].dim() == 2 else torch.stack(found).mean()


def _by_length(step: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The micro-batches of an optimizer step with its completions dealt anew, longest first; with images as it was."""
    size = len(step[0]["completion_ids"])
    if "num_images" in step[0] or any(len(one["completion_ids"]) != size for one in step):
        return step
    names = [name for name, x in step[0].items() if isinstance(x, Tensor) and x.dim() and len(x) == size]
    rows = {name: torch.cat([micro_batch[name] for micro_batch in step]) for name in names}
    order = rows["completion_mask"].sum(1).argsort(descending=True, stable=True).split(size)
    return [
        micro_batch | {name: x[chosen] for name, x in rows.items()}
        for micro_batch, chosen in zip(step, order, strict=True)
    ]


def _shares(steps: tuple[Tensor, ...]) -> Iterator[float]:
    """Yield the weight of each micro-batch in its step's mean over tokens; they average 1.

    TRL logs 0 for a micro-batch without a token, and counts it.
    """
    for tokens in steps:
        yield from (tokens / tokens.double().mean()).nan_to_num(1.0).tolist()
