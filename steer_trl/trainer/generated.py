"""Counts generated tokens and stops the run when its budget is spent.

TRL's `num_tokens` also counts the prompt of each completion. This count has only tokens that the policy wrote, on all
ranks. It includes the groups that dynamic sampling drops, and excludes the tokens that a tool wrote.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.support.validation import is_within, read_from_state
from steer_trl.trainer.checkpoints.checkpoint import PROGRESS, WHOLE
from steer_trl.trainer.checkpoints.saved import STATE_FILE, name_file, read_state
from steer_trl.trainer.ranks import read_on_main
from steer_trl.trainer.trl import GRPOTrainer, count_written, log_total, micro_batches_done, steps_per_rollout


class GeneratedTokens(TrainerCallback):
    """Counts the tokens that the policy has generated, and ends a run that has spent its token budget.

    The count `total` is in the log and in every checkpoint. `saved_share` is the share of the run that was done when
    the checkpoint was saved from which it was resumed; `None` if that is not known.
    """

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer
        self.total = 0
        self.saved_share: float | None = None
        self.was_spent = False

    def count_all(self, generate: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the trainer's complete `_generate`, and count the tokens that it returns."""
        generated = generate(*args, **kwargs)
        self.count(generated)
        return generated

    def count(self, generated: tuple[Any, ...]) -> None:
        """Add the tokens in the output of TRL's `_generate` to the count, except in an evaluation.

        Collective.
        """
        if not self._trainer.model.training:
            return
        accelerator = self._trainer.accelerator
        count = torch.tensor(sum(count_written(generated)), device=accelerator.device)
        self.total += int(accelerator.reduce(count, reduction="sum"))
        log_total(self._trainer, {"generated_tokens": self.total})

    def begin(self, checkpoint: str | None) -> None:
        """Begin counting at 0, or at the count saved in a `checkpoint`."""
        self.load_state_dict({})
        self.was_spent = False
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        state = read_on_main(self._trainer.accelerator, lambda: read_state(folder))
        with name_file(folder / STATE_FILE, f"generated and {PROGRESS}"):
            self.load_state_dict(state.get("generated", {}))
            micro_batches = read_from_state(state[PROGRESS], "micro_batches", *WHOLE) if PROGRESS in state else 0
        self.was_spent = self._is_spent(micro_batches)

    def progress(self) -> float:
        """Return the share of the run that is done, from 0 to 1.

        This is the share of its steps or the share of its token budget, whichever is larger.
        """
        state = self._trainer.state
        budget = self._trainer.args.max_generated_tokens
        # The number of steps is not known before the training begins.
        of_steps = state.global_step / state.max_steps if state.max_steps else 0.0
        of_tokens = self.total / budget if budget else 0.0
        return min(max(of_steps, of_tokens), 1.0)

    def _is_spent(self, micro_batches: int) -> bool:
        """Return whether the budget is reached and the rollout that reached it has been trained on."""
        budget = self._trainer.args.max_generated_tokens
        return budget is not None and self.total >= budget and micro_batches % steps_per_rollout(self._trainer) == 0

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
        """Return the count and the share of the run that is done, or an empty dictionary before the first token."""
        return {"total": self.total, "share": self.progress()} if self.total else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved count, or from 0 if `state` is empty.

        Raises `ValueError` if the count is missing or invalid.
        """
        self.total = 0 if state == {} else read_from_state(state, "total", *WHOLE)
        share = state.get("share")
        self.saved_share = share if is_within(share, "[0, 1]") else None
