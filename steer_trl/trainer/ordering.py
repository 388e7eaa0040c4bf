"""Orders the completions of each optimizer step, so that little padding is left and every rank computes as much.

TRL shuffles a rollout and splits it evenly. Here `assignment.py` chooses the rank and the micro-batch of each
completion of a step, longest first: a step that does not fit into memory fails at once. The update stays TRL's but
for rounding, since groups, statistics and denominators span the whole step; a loss that is a mean over the rows of a
micro-batch is multiplied by how many it has.

A micro-batch of completions without an advantage has the loss 0, so only its shortest one is given a gradient: every
engine needs a backward pass. The others are scored without one (`forward.py`).

Completions stay in TRL's order if the loss depends on how a step is split: with the loss `"bnpo"`,
`top_entropy_quantile`, an entropy bonus, a router's auxiliary loss, or a method whose `shaping_scope` is
`"micro_batch"`. They also stay with images.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.nn.functional import pad

from steer_trl.options.trl import LOSSES
from steer_trl.shaping import Shaper
from steer_trl.shaping.base import HOOKS, ROLLOUT_HOOKS
from steer_trl.trainer.assignment import assign
from steer_trl.trainer.inputs import IS_IDLE, TOKEN_SHARE, loss_mask
from steer_trl.trainer.padding import PER_TOKEN, Padding
from steer_trl.trainer.trl import (
    GRPOTrainer,
    continue_rollout,
    means_of_completions,
    means_of_tokens,
    micro_batches_done,
    micro_batches_of_rollout,
    micro_batches_of_step,
    weigh_last,
)

MicroBatch = dict[str, Any]
LEAVES_ZERO = {*ROLLOUT_HOOKS, "weights"}
"""The hooks of methods after which an advantage of 0 is still 0 in the loss."""


class Ordering:
    """Orders the rollouts of a trainer whose padding is skipped."""

    def __init__(self, trainer: GRPOTrainer, padding: Padding, shapers: Mapping[str, Shaper]) -> None:
        self._trainer, self._padding, self._shapers = trainer, padding, shapers

    @cached_property
    def _depends_on_split(self) -> bool:
        """Whether the loss depends on how an optimizer step is split into micro-batches."""
        args = self._trainer.args
        accumulation, per_rollout = args.gradient_accumulation_steps, args.steps_per_generation
        return (
            args.loss_type not in LOSSES
            or LOSSES[args.loss_type].averages_over == "micro-batch tokens"
            or args.top_entropy_quantile < 1
            or args.entropy_coef != 0
            or args.use_adaptive_entropy
            or any(shaper.overrides("entropy_coef") for shaper in self._shapers.values())
            or self._trainer.aux_loss_enabled
            or (bool(self._shapers) and args.shaping_scope == "micro_batch")
            or (per_rollout % accumulation != 0 and accumulation % per_rollout != 0)
        )

    @property
    def is_on(self) -> bool:
        """Whether rollouts are ordered: the same on every rank."""
        return self._padding.is_skipped and not self._depends_on_split

    @property
    def skips_idle(self) -> bool:
        """Whether a completion without an advantage adds nothing to the loss."""
        hooks = {hook for shaper in self._shapers.values() for hook in HOOKS if shaper.overrides(hook)}
        return self.is_on and self._trainer.beta == 0 and hooks <= LEAVES_ZERO

    def order(self, inputs: MicroBatch) -> MicroBatch:
        """Order a rollout that TRL has just split; return the micro-batch to train on. Collective for a new one."""
        trainer = self._trainer
        if not (trainer.model.training and self.is_on):
            return inputs
        rollout = micro_batches_of_rollout(trainer)
        # A rollout from a checkpoint is in order already.
        if not any(TOKEN_SHARE in one for one in rollout):
            rollout = self._order_rollout(rollout)
            continue_rollout(trainer, micro_batches_done(trainer), rollout)
        return rollout[micro_batches_done(trainer) % len(rollout)]

    def scale_loss(self, loss: Tensor, inputs: MicroBatch) -> Tensor:
        """Weigh the loss of an ordered micro-batch if it is a mean over completions, and what TRL has logged of it.

        TRL averages both over the micro-batches of a step, as if all had equally many tokens and completions.
        """
        if TOKEN_SHARE not in inputs:
            return loss
        trainer = self._trainer
        share = len(inputs["completion_ids"]) / trainer.args.per_device_train_batch_size
        weigh_last(trainer, means_of_tokens(trainer), inputs[TOKEN_SHARE])
        weigh_last(trainer, means_of_completions(trainer), share)
        is_mean_of_rows = LOSSES[trainer.loss_type].averages_over == "completions"
        return loss * share if is_mean_of_rows and share != 1 else loss

    def _order_rollout(self, rollout: list[MicroBatch]) -> list[MicroBatch]:
        count = micro_batches_of_step(self._trainer)
        steps = [_stack(rollout[begin : begin + count]) for begin in range(0, len(rollout), count)]
        if not self._can_travel(steps):
            return rollout
        measured = self._measure(steps)
        ordered = []
        for columns, (lengths, tokens, actives) in zip(steps, measured, strict=True):
            ordered += self._order_step(columns, count, lengths, tokens, actives)
        return ordered

    def _can_travel(self, steps: list[MicroBatch]) -> bool:
        """Whether the completions are rows of tensors, the same ones on every rank. Collective."""
        names = [sorted(columns) for columns in steps]
        of_ranks = gather_object([names])
        return [] not in names and all(other == names for other in of_ranks)

    def _measure(self, steps: list[MicroBatch]) -> list[list[list[int]]]:
        """Return the length, the trained tokens, and whether there is an advantage, of each step's completions.

        Those of all ranks, in the order of the ranks. Collective; waits for the device once.
        """
        own = []
        for columns in steps:
            lengths = columns["prompt_mask"].sum(1) + columns["completion_mask"].sum(1)
            advantages = columns["advantages"].view(len(lengths), -1)
            own.append(torch.stack([lengths, loss_mask(columns).sum(1), (advantages != 0).any(1).long()]))
        accelerator = self._trainer.accelerator
        of_ranks = accelerator.gather(torch.stack(own)[None])
        # [ranks, steps, numbers, rows] to [steps, numbers, ranks x rows]
        return of_ranks.permute(1, 2, 0, 3).flatten(2).tolist()

    def _order_step(
        self, columns: MicroBatch, count: int, lengths: list[int], tokens: list[int], actives: list[int]
    ) -> list[MicroBatch]:
        """Return this rank's micro-batches of a step. Collective."""
        accelerator = self._trainer.accelerator
        is_idle = [self.skips_idle and not active for active in actives]
        of_ranks = assign(lengths, is_idle, accelerator.num_processes, count, self._padding.is_compiled)
        columns = self._gather(columns)
        own = of_ranks[accelerator.process_index]
        device = columns["completion_ids"].device
        chosen = torch.tensor([place for places in own for place in places], device=device)
        sizes = [len(places) for places in own]
        mean = sum(tokens) / count
        micro_batches = []
        for rows, of_all in zip(chosen.split(sizes), zip(*of_ranks, strict=True), strict=True):
            places = [place for of_rank in of_all for place in of_rank]
            one = {name: x[rows] if _has_rows(x) else x for name, x in columns.items()}
            one[TOKEN_SHARE] = sum(tokens[place] for place in places) / mean if mean else 1.0
            one[IS_IDLE] = all(is_idle[place] for place in places)
            micro_batches.append(one)
        return micro_batches

    def _gather(self, columns: MicroBatch) -> MicroBatch:
        """Return the columns of the completions of all ranks, padded to one width."""
        accelerator = self._trainer.accelerator
        if accelerator.num_processes == 1:
            return columns
        widths = torch.tensor(_widths(columns), device=accelerator.device)
        prompt, completion = accelerator.gather(widths[None]).amax(0).tolist()
        wide = _widen(columns, prompt, completion)
        return {name: accelerator.gather(x) if _has_rows(x) else x for name, x in wide.items()}


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


def _stack(step: list[MicroBatch]) -> MicroBatch:
    """Stack the rows of micro-batches, which may have unequal widths; empty if there is more than rows of numbers."""
    size = sum(len(one["completion_ids"]) for one in step)
    prompt, completion = (max(widths) for widths in zip(*map(_widths, step), strict=True))
    wide = [_widen(one, prompt, completion) for one in step]
    columns = {}
    for name, first in wide[0].items():
        if not _has_rows(first):
            columns[name] = first
            continue
        if first.dim() > 2 or any(name not in one or len(one[name]) != len(one["completion_ids"]) for one in wide):
            return {}
        columns[name] = torch.cat([one[name] for one in wide])
    if any(isinstance(x, list) or (_has_rows(x) and len(x) != size) for x in columns.values()):
        return {}
    return columns


def _widths(columns: MicroBatch) -> tuple[int, int]:
    """The widths of the prompts and of the completions."""
    return columns["prompt_ids"].size(1), columns["completion_ids"].size(1)


def _widen(columns: MicroBatch, prompt: int, completion: int) -> MicroBatch:
    """Pad each column with zeros, prompts on the left and completions on the right."""
    own_prompt, own_completion = _widths(columns)
    wide = dict(columns)
    for name, x in columns.items():
        if not _has_rows(x) or x.dim() != 2:
            continue
        is_of_prompt = name.startswith("prompt_")
        left = prompt - own_prompt if is_of_prompt or name in PER_TOKEN else 0
        right = completion - own_completion if not is_of_prompt and x.size(1) >= own_completion else 0
        wide[name] = pad(x, (left, right)) if left or right else x
    return wide
