"""One optimizer step: what its tokens are compared with, their shaped advantages, and what is logged of them.

A statistic over all micro-batches must be known before the first one's loss. The loss's own forward pass has scored
that one; the others are scored then, unless the rollout's score has the numbers already.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.functional.order_statistics import all_ranks, this_process
from steer_trl.shaping import (
    HoldEntropy,
    Shaper,
    TokenBatch,
    compares_tokens,
    entropy_coef,
    measured,
    reads_sensitivities,
    shaped,
)
from steer_trl.shaping.base import OF_ROLLOUTS, QUESTIONS
from steer_trl.trainer.checks.tripwire import WatchedInputs, check_score, refuse_bypass
from steer_trl.trainer.inputs import OLD_LOGPS, OLD_SENSITIVITIES, Score, kept_score, token_batch
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


class OptimizerStep(TrainerCallback):
    """The step that the trainer is in; `micro_batches` of it were trained on."""

    def __init__(
        self,
        trainer: GRPOTrainer,
        shapers: Mapping[str, Shaper],
        hold: HoldEntropy | None,
        rollouts: RolloutShaping,
        tokens: TokenLog,
    ) -> None:
        self._trainer, self._shapers, self._hold = trainer, shapers, hold
        self._rollouts, self._tokens = rollouts, tokens
        self._draws = any(shaper.random for shaper in shapers.values())
        questions = {q for s in shapers.values() for q in QUESTIONS if s.answers(q)}
        self._is_watched = not questions <= {*OF_ROLLOUTS}  # until the first loss has taken what we give it
        self._awaits_gradient = self._is_watched  # until one has reached a loss that we returned
        self._acts_on_rollouts = not questions.isdisjoint(OF_ROLLOUTS)
        self._inputs: dict[str, Any] | None = None
        self.begin_training()

    def begin_training(self) -> None:
        """Begin with a step of its own; nothing is left of one that was interrupted."""
        self.micro_batches = 0
        self._measures: dict[str, Any] | None = None
        self._log = StepLog(self._trainer, self._shapers, self._hold)
        self._tokens.begin_training()

    @contextmanager
    def loss_of(self, inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Give the loss a copy of its inputs, into which its forward pass writes the shaped advantages."""
        is_watched = self._is_watched and self._trainer.model.training
        self._inputs = copy = WatchedInputs(inputs) if is_watched else dict(inputs)
        try:
            yield copy
            if isinstance(copy, WatchedInputs):
                copy.check()
                self._is_watched = False
        finally:
            self._inputs = None

    def keep_loss(self, loss: Tensor) -> None:
        """Note whether a gradient reaches the loss that `compute_loss` returns: its caller could throw it away."""
        if self._awaits_gradient and loss.requires_grad:
            loss.register_hook(self._gradient_arrived)

    def _gradient_arrived(self, gradient: Tensor) -> None:
        self._awaits_gradient = False

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Refuse a training that has gone around the hooks in which its methods act, before anything is saved."""
        if self._is_watched or self._awaits_gradient:
            refuse_bypass("compute_loss")
        if self._acts_on_rollouts and state.global_step == 1 and not self._rollouts.has_finished:
            refuse_bypass("_generate_and_score_completions")

    @property
    def wants_sensitivities(self) -> bool:
        """Whether the forward pass that comes is a loss's of which the exact sensitivities are wanted as well."""
        is_shown = self._tokens.is_looking and self._trainer.model.training and not self._trainer.shaping.is_compiled
        return self._inputs is not None and (is_shown or reads_sensitivities(self._shapers))

    def see(self, score: Score) -> None:
        """Take what a forward pass says; only the first one of a loss says anything."""
        inputs, self._inputs = self._inputs, None
        if inputs is not None and self._shapers:
            check_score(score.entropies)
        if score.entropies is None:  # of a reference model; or of a patched TRL, and there is nothing to show
            return
        if inputs is not None and (self._log.is_wanted or self._tokens.is_looking):
            self.shape(inputs, score.detached())
        if isinstance(inputs, WatchedInputs):
            inputs.watch()

    @torch.no_grad()
    def shape(self, inputs: dict[str, Any], score: Score) -> None:
        """Write the shaped advantages `[B, T]` into `inputs`, and set the coefficient of TRL's entropy bonus.

        Where no method changes any advantage they are left alone.
        """
        trainer, mode = self._trainer, "train" if self._trainer.model.training else "eval"
        batch = token_batch(trainer, inputs, score, self._draws)
        if mode == "train" and self.micro_batches == 0:
            self._measures = self._of_step(inputs, batch)
        of_step = self._measures if mode == "train" else None
        result = shaped(self._shapers, batch, of_step or measured(self._shapers, batch, this_process))
        if result.advantages is not None:
            inputs["advantages"] = result.advantages
        if (coefficient := entropy_coef(self._shapers)) is not None:
            set_entropy_bonus(trainer, coefficient)
        self._tokens.look(inputs, batch, result)
        is_last = trainer.accelerator.sync_gradients or mode == "eval"
        if self._log.is_wanted:
            self._log.add(mode, batch, result)
            if is_last:
                self._log.write(mode)
        if mode == "train":
            self.micro_batches = 0 if is_last else self.micro_batches + 1

    @property
    def completions_so_far(self) -> int:
        """How many completions of this step all ranks have trained on."""
        args = self._trainer.args
        return self.micro_batches * args.per_device_train_batch_size * self._trainer.accelerator.num_processes

    def _of_step(self, inputs: dict[str, Any], first: TokenBatch) -> dict[str, Any] | None:
        """What the tokens of this step are compared with; `None` where each micro-batch is on its own."""
        trainer, args, is_scored = self._trainer, self._trainer.args, OLD_LOGPS in inputs
        if args.shaping_scope == "micro_batch" or not compares_tokens(self._shapers):
            return None
        done = micro_batches_done(trainer)
        start = done % args.steps_per_generation
        others = micro_batches_of_rollout(trainer)[start + 1 : start + micro_batches_of_step(trainer)]
        # A run that was resumed with another method finds a rollout in its checkpoint that was scored for the first.
        is_known = is_scored and (OLD_SENSITIVITIES in inputs or not self._rollouts.wants_sensitivities)
        if is_known and (done % steps_per_rollout(trainer) == 0 or args.shaping_scope == "step"):
            batches = [token_batch(trainer, i, kept_score(i), self._draws) for i in (inputs, *others)]
        else:
            batches = [first, *(token_batch(trainer, i, self._rollouts.score(i), self._draws) for i in others)]
        batch = TokenBatch.merged(batches)
        if not is_scored:  # these micro-batches are the whole rollout then, before any update with it
            self._rollouts.log_entropy(batch.entropies, batch.mask)
        return measured(self._shapers, batch, all_ranks)
