"""Measures in a run whether the policy that samples is the policy that is scored (`monitoring/sampled.py`).

The completions are those of a rollout's first attempt, before dynamic sampling selects any: selected groups are not a
fair sample of the policy. They are scored in a pass of the model, and not by the sampler's own numbers. This is done
for the first rollout of a training run, before any update, and for every 50th rollout after it, because an engine can
drift. The alarm for the first rollout does not wait for the log.
"""

import math
from typing import Any

import torch
from torch import Tensor
from transformers import ProcessorMixin
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import pad

from steer_trl.monitoring.alarms import AlarmReporter, call_safely
from steer_trl.monitoring.sampled import estimate_gap, sum_gaps
from steer_trl.support.precision import to_double
from steer_trl.support.randomness import keep_random_state
from steer_trl.trainer.log.guard import ignore_failure
from steer_trl.trainer.trl import (
    GRPOTrainer,
    append_to_log,
    forward,
    micro_batches_done,
    steps_per_rollout,
    tokenizer_of,
)

EVERY = 50
"""The number of rollouts between two measurements."""
TOKENS = 2**17
"""About how many tokens are scored, on all ranks together. Their error is about 0.004 nats."""


class SampledAsScored:
    """Scores the completions of some rollouts, logs the difference, and raises an alarm at the first of them."""

    def __init__(self, trainer: GRPOTrainer, alarms: AlarmReporter) -> None:
        self._trainer = trainer
        self._alarms = alarms
        self._last: int | None = None

    def begin_training(self) -> None:
        """Measure at the next rollout, which is the first of this training run."""
        self._last = None

    def measure(self, generated: tuple[Any, ...]) -> None:
        """Measure the output of TRL's `_generate`, if it is the first attempt of a rollout that is measured.

        Collective.
        """
        trainer = self._trainer
        # Images are not among the columns that are scored here.
        if not trainer.model.training or isinstance(trainer.processing_class, ProcessorMixin):
            return
        rollout = micro_batches_done(trainer) // steps_per_rollout(trainer)
        is_first = self._last is None
        if self._last is not None and rollout - self._last < EVERY:
            return
        self._last = rollout
        accelerator = trainer.accelerator
        rows = self._count_rows(generated)
        sums = to_double(torch.zeros(3, device=accelerator.device))
        # Only what this rank does alone may fail: a rank that skips a reduction would leave the others waiting in it.
        with ignore_failure(trainer, "The difference between sampled and scored policy cannot be measured"):
            sums = self._sum(generated, rows)
        self._log(accelerator.reduce(sums, reduction="sum"), is_first)

    def _count_rows(self, generated: tuple[Any, ...]) -> int:
        """Return how many completions each rank scores. Collective.

        It is the same number on every rank, because a pass of a sharded model is collective.
        """
        accelerator = self._trainer.accelerator
        _, completions, *_ = generated
        count = torch.tensor(float(sum(map(len, completions))), device=accelerator.device)
        mean_length = accelerator.reduce(count, reduction="mean").item() / len(completions)
        return min(len(completions), math.ceil(TOKENS / max(mean_length, 1.0) / accelerator.num_processes))

    def _sum(self, generated: tuple[Any, ...], rows: int) -> Tensor:
        """Return this rank's sums (`sum_gaps`) over its first `rows` completions."""
        trainer = self._trainer
        accelerator = trainer.accelerator
        prompts, completions, tool_masks, *_ = generated
        written = tool_masks or [[1] * len(ids) for ids in completions]
        prompt_ids, prompt_mask = self._pad(prompts[:rows], "left")
        completion_ids, completion_mask = self._pad(completions[:rows], "right")
        mask, _ = self._pad(written[:rows], "right", padding_value=0)
        with (
            torch.no_grad(),
            keep_random_state(accelerator.device),
            disable_gradient_checkpointing(trainer.model, trainer.args.gradient_checkpointing_kwargs),
        ):
            logps, entropies, *_ = forward(
                trainer,
                trainer.model,
                input_ids=torch.cat([prompt_ids, completion_ids], dim=1),
                attention_mask=torch.cat([prompt_mask, completion_mask], dim=1),
                logits_to_keep=completion_ids.size(1),
                batch_size=trainer.args.per_device_train_batch_size,
                compute_entropy=True,
            )
        return sum_gaps(logps, entropies, mask)

    def _pad(self, rows: list[list[int]], side: str, padding_value: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the `rows` as one tensor, and the mask of its values."""
        trainer = self._trainer
        value = tokenizer_of(trainer).pad_token_id if padding_value is None else padding_value
        device = trainer.accelerator.device
        multiple = trainer.pad_to_multiple_of
        tensors = [torch.tensor(row, dtype=torch.long, device=device) for row in rows]
        ids = pad(tensors, padding_value=value, padding_side=side, pad_to_multiple_of=multiple)
        masks = [torch.ones_like(row) for row in tensors]
        return ids, pad(masks, padding_value=0, padding_side=side, pad_to_multiple_of=multiple)

    def _log(self, sums: Tensor, is_first: bool) -> None:
        trainer = self._trainer
        total, squares, count = sums.tolist()
        gap = estimate_gap(total, squares, count, trainer.model.config.get_text_config().vocab_size)
        if gap is None:
            return
        metrics = {"sampled_as_scored": gap.mean, "sampled_as_scored/error": gap.error}
        append_to_log(trainer, metrics)
        if is_first and trainer.args.alarms and trainer.is_world_process_zero():
            for alarm in call_safely(self._alarms.watch.read_entry, trainer.state.global_step, metrics) or []:
                self._alarms.report(alarm, trainer.args)
