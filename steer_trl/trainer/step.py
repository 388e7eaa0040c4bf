"""Shapes the advantages of one optimizer step and logs token statistics.

Advantages are shaped between the entry to TRL's own `_compute_loss` and its return. Whatever a subclass runs before or
after is outside, so the first forward pass inside is that of the loss. A subclass may also compute TRL's loss several
times for a micro-batch, for instance for parts of it. If a subclass replaces `_compute_loss` without calling TRL's,
all of its loss counts as TRL's, and the policy's first pass over the completions counts.

Statistics over all micro-batches of a step must be known before the loss of the first micro-batch. The forward pass of
that loss gives the log-probabilities and entropies of the first micro-batch. Those of the other micro-batches are
computed right after it, unless they were already computed for the whole rollout.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from steer_trl.entropy.hold import HoldEntropy
from steer_trl.shaping import (
    Reads,
    Shaper,
    TokenBatch,
    find_active,
    find_entropy_coef,
    find_kl_coef,
    measure_all,
    replaces_kl,
    shape_batch,
)
from steer_trl.shaping.order_statistics import all_ranks, this_process
from steer_trl.trainer.checks.tripwire import Tripwire
from steer_trl.trainer.forward.passes import Passes, ask_entropies, name_arguments
from steer_trl.trainer.inputs import (
    REF_LOGPS,
    STORED_LOGPS,
    STORED_SENSITIVITIES,
    Score,
    find_stored_score,
    token_batch,
)
from steer_trl.trainer.log.step_log import StepLog
from steer_trl.trainer.log.token_samples import TokenLog
from steer_trl.trainer.rollout import RolloutShaping
from steer_trl.trainer.trl import (
    GRPOTrainer,
    current_micro_batch,
    find_position,
    intercept,
    intercept_trl,
    is_replaced,
    rest_of_step,
    set_entropy_bonus,
    use_beta,
)


class OptimizerStep:
    """The current optimizer step."""

    def __init__(
        self,
        trainer: GRPOTrainer,
        shapers: Mapping[str, Shaper],
        reads: Reads,
        hold: HoldEntropy | None,
        rollouts: RolloutShaping,
        tokens: TokenLog,
        tripwire: Tripwire,
        passes: Passes,
        is_compiled: bool,
    ) -> None:
        self._trainer = trainer
        self._shapers = shapers
        self._reads = reads
        self._hold = hold
        self._rollouts = rollouts
        self._tokens = tokens
        self._tripwire = tripwire
        self._passes = passes
        self._is_compiled = is_compiled
        # Whether a loss is being computed, and whether a part of it was shaped.
        self._is_in_loss = False
        self._is_shaped = False
        # The inputs of TRL's loss, until its forward pass has been read.
        self._inputs: dict[str, Any] | None = None
        self.begin_training()

    def begin_training(self) -> None:
        """Reset to the start of a step. An interrupted step is discarded."""
        # The optimizer step whose statistics are in `_measures`.
        self._measured: int | None = None
        self._measures: dict[str, Any] | None = None
        self._log = StepLog(self._trainer, self._shapers, self._hold, self._reads)
        self._tokens.begin_training()

    @cached_property
    def is_own_loss(self) -> bool:
        """Whether a subclass replaces TRL's `_compute_loss`, and does not call it."""
        return is_replaced(self._trainer, "_compute_loss")

    def compute_shaped_loss(self, compute_loss: Callable[[dict[str, Any]], Tensor], inputs: dict[str, Any]) -> Tensor:
        """Return the loss that `compute_loss` computes of the micro-batch `inputs`.

        TRL's loss inside it, or the whole loss of a subclass, is computed from the shaped advantages.
        """
        if self._is_in_loss:
            return compute_loss(inputs)
        self._is_in_loss = True
        self._is_shaped = False
        try:
            if self.is_own_loss:
                self._check_own_loss()
                loss = self._shape_inside(compute_loss, inputs)
            else:
                with intercept_trl(self._trainer, _compute_loss=self._compute_loss_of_trl):
                    loss = compute_loss(inputs)
        finally:
            self._is_in_loss = False
        if self._is_shaped:
            self.write()
        return loss

    def _check_own_loss(self) -> None:
        """Raise if a method acts by a term of TRL's loss, which a subclass replaces."""
        if find_entropy_coef(self._shapers) is not None:
            self._tripwire.refuse_own_loss("has no entropy bonus, and entropy_bonus acts only in TRL's")
        if find_kl_coef(self._shapers) is not None:
            self._tripwire.refuse_own_loss("has no KL penalty, and kl acts only in TRL's")

    def _compute_loss_of_trl(self, compute_loss: Callable[..., Tensor], model: Any, inputs: dict[str, Any]) -> Tensor:
        return self._shape_inside(partial(compute_loss, model), inputs)

    def _shape_inside(self, compute_loss: Callable[[dict[str, Any]], Tensor], inputs: dict[str, Any]) -> Tensor:
        """Return the loss that `compute_loss` computes from a copy of `inputs`.

        The shaped advantages are written into the copy during the forward pass.
        """
        trainer = self._trainer
        with self._tripwire.watch(inputs, trainer.model.training) as copy:
            self._inputs = copy
            try:
                with (
                    intercept(trainer, _get_per_token_logps_and_entropies=self._shape_after_pass),
                    self._set_beta(copy),
                ):
                    loss = compute_loss(copy)
            finally:
                self._inputs = None
        return self._tripwire.follow(loss)

    def _set_beta(self, inputs: dict[str, Any]) -> AbstractContextManager[None]:
        """Return a context that sets the coefficient of TRL's KL penalty in the loss of `inputs`, if a method does."""
        coefficient = 0.0 if replaces_kl(self._shapers) else find_kl_coef(self._shapers)
        if coefficient is None:
            return nullcontext()
        # In an evaluation, and in the rest of a rollout that another method began, the reference has made no pass.
        return use_beta(self._trainer, coefficient if REF_LOGPS in inputs else 0.0)

    def _shape_after_pass(self, forward_pass: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a forward pass of the loss. Shape the advantages with the results of the first."""
        if self._inputs is None or (self.is_own_loss and not self._is_over_completions(args, kwargs)):
            return forward_pass(*args, **kwargs)
        # Without a method, request only what the loss requests.
        if self._shapers:
            args, kwargs = ask_entropies(args, kwargs)
        outputs, score = self._passes.read(forward_pass, self._wants_sensitivities, *args, **kwargs)
        self._on_forward(score)
        return outputs

    def _is_over_completions(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a pass in a subclass's own loss is that of the policy over the completions."""
        assert self._inputs is not None
        given = name_arguments(args, kwargs)
        unwrap = self._trainer.accelerator.unwrap_model
        completions = self._inputs["completion_ids"]
        scored = given["input_ids"][:, -completions.size(1) :]
        return unwrap(given["model"]) is unwrap(self._trainer.model) and torch.equal(scored, completions)

    @property
    def _wants_sensitivities(self) -> bool:
        """Whether the next forward pass belongs to a loss that needs exact entropy sensitivities."""
        assert self._inputs is not None
        is_shown = self._tokens.exports(self._inputs) and not self._is_compiled
        return is_shown or self._reads.sensitivities

    def _on_forward(self, score: Score) -> None:
        """Shape the advantages of the current loss with the results of its forward pass.

        A patched TRL may return no entropies. This is an error if methods are in use. Otherwise the pass is ignored.
        """
        inputs = self._inputs
        self._inputs = None
        assert inputs is not None
        if self._shapers:
            self._tripwire.check_score(score, needs_sensitivities=True)
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
        batch = self._to_batch(inputs, score)
        if is_training and self._measured != trainer.state.global_step:
            self._measures = self._measure_step(inputs, batch)
            self._measured = trainer.state.global_step
        of_step = self._measures if is_training else None
        result = shape_batch(self._shapers, batch, of_step or measure_all(self._shapers, batch, this_process))
        if result.advantages is not None:
            inputs["advantages"] = result.advantages
        if (coefficient := find_entropy_coef(self._shapers)) is not None:
            set_entropy_bonus(trainer, coefficient)
        self._tokens.add(inputs, batch, result)
        if self._log.is_wanted:
            self._log.add(batch, result)
        self._is_shaped = True

    @torch.no_grad()
    def write(self) -> None:
        """Write what was collected, if this is the last micro-batch of a step or a micro-batch of an evaluation."""
        trainer = self._trainer
        self._tokens.write()
        if self._log.is_wanted and (trainer.accelerator.sync_gradients or not trainer.model.training):
            self._log.write()

    def _measure_step(self, inputs: dict[str, Any], first: TokenBatch) -> dict[str, Any] | None:
        """Compute the statistics over the whole step, whose first micro-batch is `inputs`, or `first` as scored now.

        The result is `None` if no active method compares tokens across micro-batches.
        """
        scope = self._trainer.args.shaping_scope
        if not Reads.of(find_active(self._shapers), scope).step_statistics:
            return None
        others = rest_of_step(self._trainer)
        scored, unscored = [first], others
        whole = current_micro_batch(self._trainer)
        if whole is not None and self._has_other_rows(inputs, whole):
            inputs, scored, unscored = whole, [], [whole, *others]
        if self._can_read_scores(inputs):
            batches = [self._to_batch(each, find_stored_score(each)) for each in (inputs, *others)]
        else:
            batches = scored + [self._to_batch(each, self._rollouts.score(each)) for each in unscored]
        step = TokenBatch.merge(batches)
        self._rollouts.log_entropy_of_step(inputs, step)
        return measure_all(self._shapers, step, all_ranks)

    def _has_other_rows(self, inputs: dict[str, Any], whole: dict[str, Any]) -> bool:
        """Return whether a subclass gives TRL's loss a part of the `whole` micro-batch, on any rank. Collective."""
        if not self._tripwire.has_handlers:
            return False
        accelerator = self._trainer.accelerator
        differs = len(inputs["completion_ids"]) != len(whole["completion_ids"])
        return bool(accelerator.reduce(torch.tensor(float(differs), device=accelerator.device)).item())

    def _can_read_scores(self, inputs: dict[str, Any]) -> bool:
        """Return whether the stored scores of the step are those with which its tokens are to be compared."""
        # After a resume with a different method, the stored rollout may lack the sensitivities that this method needs.
        lacks_sensitivities = self._rollouts.wants_sensitivities and STORED_SENSITIVITIES not in inputs
        is_stored = STORED_LOGPS in inputs and not lacks_sensitivities
        is_current = find_position(self._trainer).is_first_of_rollout
        return is_stored and (is_current or self._trainer.args.shaping_scope == "step")

    def _to_batch(self, inputs: dict[str, Any], score: Score) -> TokenBatch:
        return token_batch(self._trainer, inputs, score, self._reads.draws)
