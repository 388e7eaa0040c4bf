"""Orders the completions of each optimizer step, so that little padding is left and all ranks have equal work.

TRL shuffles a rollout and splits it evenly. Here `assignment.py` chooses the rank and the micro-batch of each
completion of a step. The longest completions come first, so a step that does not fit into memory fails immediately.
Except for rounding, the update is the same as in TRL, because groups, statistics and denominators span the whole step.
If the loss is an average over the rows of a micro-batch, it is multiplied by the micro-batch's number of rows and
divided by the number of rows in TRL's equal micro-batches.

Completions stay in TRL's order if the loss depends on how a step is split: with the loss `"bnpo"`,
`top_entropy_quantile`, an entropy bonus, a router's auxiliary loss, or a method whose `shaping_scope` is
`"micro_batch"`. They also stay in TRL's order if the prompts may have images, or if a rollout has a column that is a
list.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from steer_trl.options.trl import LOSSES
from steer_trl.shaping import Shaper
from steer_trl.trainer.assignment import assign
from steer_trl.trainer.inputs import TOKEN_SHARE, loss_mask
from steer_trl.trainer.padding import Padding
from steer_trl.trainer.trl import (
    GRPOTrainer,
    continue_rollout,
    micro_batches_done,
    micro_batches_of_rollout,
    micro_batches_of_step,
    weigh_last_means,
)

MicroBatch = dict[str, Any]


class Ordering:
    """Orders the rollouts of a trainer that runs its model without padding."""

    def __init__(self, trainer: GRPOTrainer, padding: Padding, shapers: Mapping[str, Shaper]) -> None:
        self._trainer = trainer
        self._padding = padding
        self._shapers = shapers

    @cached_property
    def _depends_on_split(self) -> bool:
        """Whether the loss depends on how an optimizer step is split into micro-batches."""
        args = self._trainer.args
        accumulation = args.gradient_accumulation_steps
        per_rollout = args.steps_per_generation
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
        """Whether rollouts are ordered. This is the same on every rank."""
        return self._padding.is_skipped and not self._depends_on_split

    def order(self, inputs: MicroBatch) -> MicroBatch:
        """Order a rollout that TRL has just split, and return the micro-batch to train on next.

        The call is collective if the rollout is new.
        """
        trainer = self._trainer
        # A list cannot be gathered from other ranks, so it could not follow its completions.
        has_lists = any(isinstance(column, list) for column in inputs.values())
        if has_lists or not (trainer.model.training and self.is_on):
            return inputs
        rollout = micro_batches_of_rollout(trainer)
        # A rollout from a checkpoint was ordered before it was saved.
        if not any(TOKEN_SHARE in one for one in rollout):
            rollout = self._order_rollout(rollout)
            continue_rollout(trainer, micro_batches_done(trainer), rollout)
        return rollout[micro_batches_done(trainer) % len(rollout)]

    def scale_loss(self, loss: Tensor, inputs: MicroBatch) -> Tensor:
        """Return the loss of an ordered micro-batch, weighted by its size if the loss is a mean over completions.

        The means that TRL has just logged are weighted, too. TRL averages losses and logged means over the
        micro-batches of a step as if all had equally many tokens and completions.
        """
        if TOKEN_SHARE not in inputs:
            return loss
        trainer = self._trainer
        share = len(inputs["completion_ids"]) / trainer.args.per_device_train_batch_size
        weigh_last_means(trainer, of_tokens=inputs[TOKEN_SHARE], of_completions=share)
        is_mean_of_rows = LOSSES[trainer.loss_type].averages_over == "completions"
        return loss * share if is_mean_of_rows and share != 1 else loss

    def _order_rollout(self, rollout: list[MicroBatch]) -> list[MicroBatch]:
        names = [name for name, x in rollout[0].items() if isinstance(x, Tensor) and x.dim() > 0]
        count = micro_batches_of_step(self._trainer)
        ordered = []
        for begin in range(0, len(rollout), count):
            step = rollout[begin : begin + count]
            columns = {name: self._gather(name, step) for name in names}
            ordered += [step[0] | one for one in self._order_step(columns, count)]
        return ordered

    def _gather(self, name: str, step: list[MicroBatch]) -> Tensor:
        """Gather the column `name` of a step from all ranks, padded with zeros to their largest width. Collective."""
        accelerator = self._trainer.accelerator
        own = torch.cat([one[name] for one in step])
        padded = accelerator.pad_across_processes(own, dim=1, pad_first=name.startswith("prompt_"))
        return accelerator.gather(padded)

    def _order_step(self, columns: MicroBatch, count: int) -> list[MicroBatch]:
        """Assign all completions to ranks and micro-batches, and return this rank's micro-batches.

        The CPU waits for the accelerator only once.
        """
        accelerator = self._trainer.accelerator
        lengths = columns["prompt_mask"].sum(1) + columns["completion_mask"].sum(1)
        of_lengths, tokens = torch.stack([lengths, loss_mask(columns).sum(1)]).tolist()
        of_ranks = assign(of_lengths, accelerator.num_processes, count)
        own = of_ranks[accelerator.process_index]
        chosen = torch.tensor([place for places in own for place in places], device=lengths.device)
        mean = sum(tokens) / count
        micro_batches = []
        for rows, of_all in zip(chosen.split(list(map(len, own))), zip(*of_ranks, strict=True), strict=True):
            trained = sum(tokens[place] for places in of_all for place in places)
            one: MicroBatch = {name: x[rows] for name, x in columns.items()}
            one[TOKEN_SHARE] = trained / mean if mean else 1.0
            micro_batches.append(one)
        return micro_batches
