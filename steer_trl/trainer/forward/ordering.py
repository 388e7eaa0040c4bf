"""Orders the completions of an optimizer step, so that prompts are computed once and all ranks have equal work.

TRL shuffles a rollout and splits it evenly. When a step begins, its completions may change places, also between ranks
(`arrangement.py`, `exchange.py`). Each micro-batch keeps its number of rows, so a sum or a mean over the step stays
the same except for rounding. This is done only if the counted cost of the slowest rank falls. With one rank, it falls
only if more completions share their prompt.

Completions stay in TRL's order

- if a subclass replaces the loss, or the methods that hand out its inputs;
- if the loss depends on how a step is split: with the loss `"bnpo"`, `top_entropy_quantile`, an entropy bonus, a
  router's auxiliary loss, or a method whose `shaping_scope` is `"micro_batch"`;
- if a rollout is trained on several times, and its steps begin at other micro-batches each time;
- if a rollout has a column that cannot follow its completions, such as a list.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from steer_trl.options.trl import LOSSES
from steer_trl.shaping import Shaper
from steer_trl.trainer.forward.arrangement import MicroBatches, Row, arrange
from steer_trl.trainer.forward.decision import Padding
from steer_trl.trainer.forward.exchange import send_rows
from steer_trl.trainer.trl import (
    GRPOTrainer,
    is_overridden,
    micro_batches_done,
    micro_batches_of_rollout,
    micro_batches_of_this_step,
)

MicroBatch = dict[str, Any]

METHODS = ("compute_loss", "_compute_loss", "training_step", "_prepare_inputs")
"""Methods of TRL that a subclass may replace by others for which the order of the completions is not arbitrary."""
MOST_COLUMNS = 32
"""The most columns of a rollout whose completions are ordered."""


class Ordering:
    """Orders the steps of a trainer that runs its model without padding."""

    def __init__(self, trainer: GRPOTrainer, padding: Padding, shapers: Mapping[str, Shaper]) -> None:
        self._trainer = trainer
        self._padding = padding
        self._shapers = shapers
        self.begin_training()

    def begin_training(self) -> None:
        """Begin with the first micro-batch of a step."""
        self._done = 0

    @cached_property
    def _is_possible(self) -> bool:
        """Whether the loss is the same in any order of a step's completions."""
        args = self._trainer.args
        return not (
            any(is_overridden(self._trainer, name) for name in METHODS)
            or args.loss_type not in LOSSES
            or LOSSES[args.loss_type].averages_over == "micro-batch tokens"
            or args.top_entropy_quantile < 1
            or args.entropy_coef != 0
            or args.use_adaptive_entropy
            or any(shaper.overrides("entropy_coef") for shaper in self._shapers.values())
            or self._trainer.aux_loss_enabled
            or (bool(self._shapers) and args.shaping_scope == "micro_batch")
            or self._cuts_iterations_differently
        )

    @property
    def _cuts_iterations_differently(self) -> bool:
        """Whether the steps of a rollout's second iteration begin at other micro-batches than those of the first.

        Completions that change places within a step of the first would then be in another step of the second.
        """
        args = self._trainer.args
        per_rollout = args.steps_per_generation
        per_step = args.gradient_accumulation_steps
        return args.num_iterations > 1 and per_rollout % per_step != 0 and per_step % per_rollout != 0

    @property
    def is_on(self) -> bool:
        """Whether completions are ordered if it pays. This is the same on every rank."""
        return self._padding.is_skipped and self._is_possible

    def order(self, inputs: MicroBatch) -> MicroBatch:
        """Order the completions of a step if `inputs`, which TRL has just chosen, is its first micro-batch.

        Return the micro-batch to train on next. The call is collective.
        """
        trainer = self._trainer
        if not trainer.model.training:
            return inputs
        done = self._done
        self._done = 0 if trainer.accelerator.sync_gradients else done + 1
        rollout = micro_batches_of_rollout(trainer)
        start = micro_batches_done(trainer) % len(rollout)
        # If a step has several rollouts, each of them is ordered when its own first micro-batch is reached.
        if not self.is_on or (done > 0 and start > 0):
            return inputs
        step = slice(start, start + micro_batches_of_this_step(trainer) - done)
        rollout[step] = self._order_step(rollout[step])
        return rollout[start]

    def _order_step(self, step: list[MicroBatch]) -> list[MicroBatch]:
        """Return the micro-batches of a step of all ranks in another order, if that pays. Collective.

        The CPU waits for the accelerator once.
        """
        accelerator = self._trainer.accelerator
        names = [name for name, x in step[0].items() if isinstance(x, Tensor) and x.dim() > 0]
        can_follow = _can_follow(step)
        columns = {name: torch.cat([batch[name] for batch in step]) for name in names} if can_follow else {}
        header = torch.tensor(_describe(columns), device=accelerator.device)
        of_ranks = accelerator.gather(torch.cat([header, _measure_rows(step).flatten()])[None]).tolist()
        if len({tuple(numbers[:2]) for numbers in of_ranks}) > 1 or not can_follow:
            return step
        rows = [Row(*numbers[i : i + 3]) for numbers in of_ranks for i in range(2 + MOST_COLUMNS, len(numbers), 3)]
        padding = self._padding
        arranged = arrange(rows, accelerator.num_processes, len(step), padding.cost, padding.is_packed)
        if arranged is None:
            return step
        widths = [max(of_all) for of_all in zip(*(numbers[2 : 2 + len(names)] for numbers in of_ranks), strict=True)]
        ordered = self._take(columns, widths, arranged)
        pieces = {name: x.split(len(x) // len(step)) for name, x in ordered.items()}
        return [step[0] | {name: of_name[i] for name, of_name in pieces.items()} for i in range(len(step))]

    def _take(self, columns: dict[str, Tensor], widths: list[int], arranged: MicroBatches) -> dict[str, Tensor]:
        """Return the columns of this rank's arranged rows. Collective."""
        accelerator = self._trainer.accelerator
        wanted = [[row for batch in own for row in batch] for own in arranged]
        if accelerator.num_processes > 1:
            return send_rows(columns, widths, wanted, accelerator.process_index)
        rows = torch.tensor(wanted[0], device=accelerator.device)
        return {name: x[rows] for name, x in columns.items()}


def _can_follow(step: list[MicroBatch]) -> bool:
    """Return whether each column is a tensor with one row for each completion, or the same for all of them."""
    for batch in step:
        count = len(batch["completion_ids"])
        for x in batch.values():
            is_row = isinstance(x, Tensor) and (x.dim() == 0 or len(x) == count)
            if not is_row and isinstance(x, (Tensor, list, tuple, dict)):
                return False
    return len(step[0]) <= MOST_COLUMNS


def _describe(columns: dict[str, Tensor]) -> list[int]:
    """Return the number of columns, a number for their names, types and dimensions, and their widths in tokens."""
    kinds = repr([(name, x.dtype, x.dim(), x.shape[2:]) for name, x in columns.items()])
    widths = [x.size(1) if x.dim() > 1 else 1 for x in columns.values()]
    return [len(columns), crc32(kinds.encode()), *widths, *[0] * (MOST_COLUMNS - len(widths))]


def _measure_rows(step: list[MicroBatch]) -> Tensor:
    """Return for each completion a number for its prompt, and the lengths of both, `[B, 3]`.

    The number is that of a polynomial whose coefficients are the tokens, from the last one on. If two prompts should
    have the same, only the order is a little worse.
    """
    ids = torch.cat([batch["prompt_ids"] for batch in step])
    is_prompt = torch.cat([batch["prompt_mask"] for batch in step])
    is_token = torch.cat([batch["completion_mask"] for batch in step])
    powers = torch.full((ids.size(1),), 6364136223846793005, dtype=torch.long, device=ids.device).cumprod(0)
    numbers = ((ids + 1) * is_prompt * powers.flip(0)).sum(1)
    return torch.stack([numbers, is_prompt.sum(1), is_token.sum(1)], dim=1).long()
