"""Shapes the advantages of one optimizer step and logs token statistics.

Statistics over all micro-batches of a step must be known before the loss of the first micro-batch. The forward pass of
that loss gives the log-probabilities and entropies of the first micro-batch. Those of the other micro-batches are
computed right after it, unless they were already computed for the whole rollout.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from steer_trl.entropy.hold import HoldEntropy
from steer_trl.functional.order_statistics import all_ranks, this_process
from steer_trl.shaping import (
    Shaper,
    TokenBatch,
    compares_tokens,
    find_entropy_coef,
    measure_all,
    reads_sensitivities,
    shape_batch,
)
from steer_trl.trainer.checks.tripwire import Tripwire, check_score
from steer_trl.trainer.inputs import OLD_LOGPS, OLD_SENSITIVITIES, Score, read_score, token_batch
from steer_trl.trainer.log.step_log import StepLog
from steer_trl.trainer.rollout import RolloutShaping
from steer_trl.trainer.tokens.samples import TokenLog
from steer_trl.trainer.trl import (
    GRPOTrainer,
    micro_batches_done,
    micro_batches_of_rollout,
    micro_batches_of_step,
    set_entropy_bonus,
    steps_per_rollout,
)


class OptimizerStep:
    """The current optimizer step. `micro_batches` counts the micro-batches of this step already trained on."""

    def __init__(
        self,
        trainer: GRPOTrainer,
        shapers: Mapping[str, Shaper],
        hold: HoldEntropy | None,
        rollouts: RolloutShaping,
        tokens: TokenLog,
        tripwire: Tripwire,
        is_compiled: bool,
    ) -> None:
        self._trainer = trainer
        self._shapers = shapers
        self._hold = hold
        self._rollouts = rollouts
        self._tokens = tokens
        self._tripwire = tripwire
        self._is_compiled = is_compiled
        self._draws = any("draws" in shaper.reads for shaper in shapers.values())
        self._inputs: dict[str, Any] | None = None
        self.is_in_loss = False
        self.begin_training()

    def begin_training(self) -> None:
        """Reset to the start of a step. An interrupted step is discarded."""
        self.micro_batches = 0
        self._measures: dict[str, Any] | None = None
        self._log = StepLog(self._trainer, self._shapers, self._hold)
        self._tokens.begin_training()

    @contextmanager
    def loss_of(self, inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield a copy of a loss's `inputs`.

        The shaped advantages are written into it during the forward pass.
        """
        with self._tripwire.watch(inputs, self._trainer.model.training) as copy:
            self._inputs = copy
            self.is_in_loss = True
            try:
                yield copy
            finally:
                self._inputs = None
                self.is_in_loss = False

    @property
    def wants_sensitivities(self) -> bool:
        """Whether the next forward pass belongs to a loss that needs exact entropy sensitivities."""
        if self._inputs is None:
            return False
        is_shown = self._tokens.exports(self._inputs) and not self._is_compiled
        return is_shown or reads_sensitivities(self._shapers)

    def on_forward(self, score: Score) -> None:
        """Shape the advantages of the current loss with the results of its first forward pass.

        Later passes of the same loss are ignored. A patched TRL may return no entropies. This is an error if methods
        are in use. Otherwise the pass is ignored.
        """
        inputs = self._inputs
        self._inputs = None
        if inputs is None:
            return
        if self._shapers:
            check_score(score.entropies)
        if score.entropies is None:
            return
        if self._log.is_wanted or self._tokens.exports(inputs):
            sensitivities = None if score.sensitivities is None else score.sensitivities.detach()
            self.shape(inputs, Score(score.logps.detach(), score.entropies.detach(), sensitivities))
        self._tripwire.on_shaped(inputs)

    @torch.no_grad()
    def shape(self, inputs: dict[str, Any], score: Score) -> None:
        """Write the shaped advantages `[B, T]` into `inputs`, and set the coefficient of TRL's entropy bonus.

        If no method changes an advantage, TRL's advantages stay as they are.
        """
        trainer = self._trainer
        is_training = trainer.model.training
        batch = token_batch(trainer, inputs, score, self._draws)
        if is_training and self.micro_batches == 0:
            self._measures = self._measure_step(inputs, batch)
        of_step = self._measures if is_training else None
        result = shape_batch(self._shapers, batch, of_step or measure_all(self._shapers, batch, this_process))
        if result.advantages is not None:
            inputs["advantages"] = result.advantages
        if (coefficient := find_entropy_coef(self._shapers)) is not None:
            set_entropy_bonus(trainer, coefficient)
        self._tokens.add(inputs, batch, result)
        is_last = trainer.accelerator.sync_gradients or not is_training
        if self._log.is_wanted:
            self._log.add(batch, result)
            if is_last:
                self._log.write()
        if is_training:
            self.micro_batches = 0 if is_last else self.micro_batches + 1

    def _measure_step(self, inputs: dict[str, Any], first: TokenBatch) -> dict[str, Any] | None:
        """Compute the statistics over the whole step.

        The result is `None` if no method compares tokens across micro-batches.
        """
        trainer = self._trainer
        args = trainer.args
        is_scored = OLD_LOGPS in inputs
        if args.shaping_scope == "micro_batch" or not compares_tokens(self._shapers):
            return None
        done = micro_batches_done(trainer)
        start = done % args.steps_per_generation
        others = micro_batches_of_rollout(trainer)[start + 1 : start + micro_batches_of_step(trainer)]
        # After a resume with a different method, the stored rollout may lack the sensitivities that this method needs.
        is_known = is_scored and (OLD_SENSITIVITIES in inputs or not self._rollouts.wants_sensitivities)
        if is_known and (done % steps_per_rollout(trainer) == 0 or args.shaping_scope == "step"):
            batches = [token_batch(trainer, i, read_score(i), self._draws) for i in (inputs, *others)]
        else:
            batches = [first, *(token_batch(trainer, i, self._rollouts.score(i), self._draws) for i in others)]
        batch = TokenBatch.merge(batches)
        # A rollout without a stored score is trained on in one step only. So these micro-batches are the whole
        # rollout, and the policy has not been updated with any of them.
        if not is_scored:
            self._rollouts.log_entropy(batch.entropies, batch.mask)
        return measure_all(self._shapers, batch, all_ranks)
