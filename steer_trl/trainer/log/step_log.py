"""Logs statistics of an optimizer step's micro-batches, gathered from all ranks once per step."""

from collections.abc import Callable, Mapping
from typing import Any

from steer_trl.entropy.hold import HoldEntropy
from steer_trl.monitoring.statistics import Statistic
from steer_trl.monitoring.tokens import change_statistics, sanity_statistics, token_statistics
from steer_trl.monitoring.weights import shaping_statistics, weight_statistics
from steer_trl.shaping import Reads, Shaped, Shaper, TokenBatch
from steer_trl.trainer.log.guard import ignore_failure
from steer_trl.trainer.log.sums import StepSummary
from steer_trl.trainer.trl import GRPOTrainer, append_to_log


class StepLog:
    """The log of the current optimizer step, and of an evaluation that may run before the step ends."""

    def __init__(
        self, trainer: GRPOTrainer, shapers: Mapping[str, Shaper], hold: HoldEntropy | None, reads: Reads
    ) -> None:
        self._reads = reads
        self._trainer = trainer
        self._shapers = shapers
        self._hold = hold
        self._weighs = any(shaper.overrides("weights") for shaper in shapers.values())
        self._of_training = StepSummary()
        self._of_evaluation = StepSummary()

    @property
    def is_wanted(self) -> bool:
        """Whether the current batch has anything to log."""
        return self._reads.tokens and (bool(self._shapers) or self._trainer.model.training)

    @property
    def _summary(self) -> StepSummary:
        return self._of_training if self._trainer.model.training else self._of_evaluation

    def add(self, batch: TokenBatch, result: Shaped) -> None:
        """Add the statistics of a micro-batch."""
        self._take(sanity_statistics, batch, self._trainer.model.config.get_text_config().vocab_size)
        if self._shapers:
            self._summary.expect(result.marks)
            self._take(shaping_statistics, batch, result)
            with ignore_failure(self._trainer, "The smallest and the largest weight cannot be measured"):
                self._summary.add_weights(result.weights, batch.mask)
        if not (self._trainer.model.training and self._trainer.args.diagnostics):
            return
        advantages = batch.advantages if result.advantages is None else result.advantages
        if self._weighs:
            self._take(weight_statistics, result.weights, batch.mask)
        self._take(token_statistics, batch)
        self._take(change_statistics, batch, advantages)

    def _take(self, measure: Callable[..., Mapping[str, Statistic]], *args: Any) -> None:
        """Add the statistics that the diagnostic `measure` returns.

        If it fails, nothing is added on this rank.
        """
        with ignore_failure(self._trainer, f"The diagnostic {measure.__name__} has failed"):
            self._summary.add(measure(*args))

    def write(self) -> None:
        """Append the statistics of all ranks to TRL's log. Collective."""
        append_to_log(self._trainer, self._summary.pop(self._trainer.accelerator))
        for shaper in self._shapers.values():
            append_to_log(self._trainer, shaper.metrics())
        if self._hold is not None:
            append_to_log(self._trainer, self._hold.metrics())
