"""Logs an optimizer step: the statistics of its micro-batches, gathered from all ranks once."""

from collections.abc import Callable, Mapping
from typing import Any

from steer_trl.diagnostics.statistics import Statistic
from steer_trl.diagnostics.tokens import change_statistics, sanity_statistics, token_statistics
from steer_trl.diagnostics.weights import shaping_statistics, weight_statistics
from steer_trl.shaping import HoldEntropy, Shaped, Shaper, TokenBatch
from steer_trl.trainer.log.guard import guard
from steer_trl.trainer.log.sums import StepSummary
from steer_trl.trainer.trl import GRPOTrainer, append_to_log


class StepLog:
    """The log of the current optimizer step, and of an evaluation batch that may come before it ends."""

    def __init__(self, trainer: GRPOTrainer, shapers: Mapping[str, Shaper], hold: HoldEntropy | None) -> None:
        self._trainer, self._shapers, self._hold = trainer, shapers, hold
        self._weighs = any(shaper.overrides("weights") for shaper in shapers.values())
        self._summaries = {"train": StepSummary(), "eval": StepSummary()}

    @property
    def is_wanted(self) -> bool:
        """Whether the current batch has anything to log."""
        return bool(self._shapers) or (self._trainer.args.diagnostics and self._trainer.model.training)

    def add(self, mode: str, batch: TokenBatch, result: Shaped) -> None:
        """Add the statistics of a micro-batch."""
        summary = self._summaries[mode]
        self._take(mode, sanity_statistics, batch, self._trainer.model.config.get_text_config().vocab_size)
        if self._shapers:
            summary.expect(result.marks)
            self._take(mode, shaping_statistics, batch, result)
            with guard(self._trainer, "The smallest and the largest weight cannot be measured"):
                summary.add_weights(result.weights, batch.mask)
        if mode == "eval" or not self._trainer.args.diagnostics:
            return
        advantages = batch.advantages if result.advantages is None else result.advantages
        if self._weighs:
            self._take(mode, weight_statistics, result.weights, batch.mask)
        self._take(mode, token_statistics, batch)
        self._take(mode, change_statistics, batch, advantages)

    def _take(self, mode: str, measure: Callable[..., Mapping[str, Statistic]], *given: Any) -> None:
        """Add what a diagnostic measures. One that fails adds nothing on this rank."""
        with guard(self._trainer, f"The diagnostic {measure.__name__} has failed"):
            self._summaries[mode].add(measure(*given))

    def write(self, mode: str) -> None:
        """Append the statistics of all ranks to TRL's log. Collective."""
        append_to_log(self._trainer, self._summaries[mode].pop(self._trainer.accelerator), mode)
        for shaper in self._shapers.values():
            append_to_log(self._trainer, shaper.metrics(), mode)
        if self._hold is not None:
            append_to_log(self._trainer, self._hold.metrics(), mode)
