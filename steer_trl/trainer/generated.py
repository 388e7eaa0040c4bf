"""Counts generated tokens and stops the run when its budget is spent.

TRL's `num_tokens` also counts the prompt of each completion. This count has only tokens that the policy wrote, on all
ranks. It includes the groups that dynamic sampling drops, and excludes the tokens that a tool wrote.
"""

import logging
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.shaping import HoldEntropy
from steer_trl.trainer.checkpoint import PROGRESS
from steer_trl.trainer.saved import read_state
from steer_trl.trainer.trl import GRPOTrainer, count_written, log_total, micro_batches_done, steps_per_rollout
from steer_trl.validation import is_within, read_from_state

logger = logging.getLogger(__name__)


class GeneratedTokens(TrainerCallback):
    """Counts the tokens that the policy has generated, and ends a run that has spent its token budget.

    The count `total` is in the log and in every checkpoint.
    """

    def __init__(self, trainer: GRPOTrainer, hold: HoldEntropy | None) -> None:
        self._trainer = trainer
        self._hold = hold
        self.total = 0
        self.was_spent = False
        # In a resumed run, this is the share of the run that was done when its checkpoint was saved.
        self._share = 0.0

    def count(self, generated: tuple[Any, ...]) -> None:
        """Add the tokens in the output of TRL's `_generate` to the count, except in an evaluation.

        Collective.
        """
        if not self._trainer.model.training:
            return
        accelerator = self._trainer.accelerator
        own = torch.tensor(sum(count_written(generated)), device=accelerator.device)
        self.total += int(accelerator.reduce(own, reduction="sum"))
        log_total(self._trainer, {"generated_tokens": self.total})

    def begin(self, checkpoint: str | None) -> None:
        """Begin counting at 0, or at the count saved in a `checkpoint`."""
        state = {} if checkpoint is None else read_state(Path(checkpoint))
        self.load_state_dict(state.get("generated", {}))
        self.was_spent = self._is_spent(state.get(PROGRESS, {}).get("micro_batches", 0))

    def progress(self) -> float:
        """Return the share of the run that is done, from 0 to 1.

        This is the share of its steps or the share of its token budget, whichever is larger.
        """
        state = self._trainer.state
        budget = self._trainer.args.max_generated_tokens
        # The number of steps is 0 until training begins.
        of_steps = state.global_step / state.max_steps if state.max_steps else 0.0
        return min(max(of_steps, self.total / budget if budget else 0.0), 1.0)

    def _is_spent(self, micro_batches: int) -> bool:
        """Return whether the budget is reached and the rollout that reached it has been trained on."""
        budget = self._trainer.args.max_generated_tokens
        return budget is not None and self.total >= budget and micro_batches % steps_per_rollout(self._trainer) == 0

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Warn if resuming with a different run length makes the target of `hold_entropy` jump."""
        hold = self._hold
        share = self.progress()
        if hold is None or not self._share or share == 1:
            return
        before, now = hold.level(self._share), hold.level(share)
        if before != now:
            logger.warning(
                "%.3g %% of the training was done when the checkpoint was saved, but this is %.3g %% of its current "
                "length. The target of hold_entropy therefore moves from %.4g nats to %.4g at once. To keep it, "
                "resume with the same max_steps, num_train_epochs and max_generated_tokens.",
                *(100 * self._share, 100 * share, before, now),
            )

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """End the run if its budget is spent.

        The last step is logged. It is also evaluated and saved, unless evaluations or checkpoints are switched off.
        """
        if self._is_spent(micro_batches_done(self._trainer)):
            # With this number of steps, a resume recognises that the run has ended.
            state.max_steps = state.global_step
            control.should_training_stop = control.should_log = True
            control.should_evaluate |= args.eval_strategy != "no"
            control.should_save |= args.save_strategy != "no"

    def state_dict(self) -> dict[str, float]:
        """Return the count and the run's progress, or an empty dictionary before the first token."""
        return {"total": self.total, "share": self.progress()} if self.total else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved count. Raises `ValueError` if it is not a number of tokens."""
        state = state or {"total": 0}
        share: Any = state.get("share")
        self._share = share if is_within(share, "[0, 1]") else 0.0
        self.total = read_from_state(
            state, "total", lambda x: isinstance(x, int) and x >= 0, "a whole number >= 0 of tokens"
        )
