"""Gives each optimizer step the same weight in TRL's log.

TRL logs a value for each micro-batch, and averages all of them since the last log entry. The last step of an epoch may
have fewer micro-batches than the others, and would count less.
"""

from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.trainer.trl import GRPOTrainer, average_new_means


class StepMeans(TrainerCallback):
    """Averages the values of a step's micro-batches when the step ends."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer
        self._done: dict[str, int] = {}

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Begin with an empty log."""
        self._done = {}

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Average the values of this step."""
        average_new_means(self._trainer, self._done)

    def on_log(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Begin anew, because TRL empties its log after a log entry of training."""
        if self._trainer.model.training:
            self._done = {}
