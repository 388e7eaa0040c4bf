"""Warns if a run ends before `hold_entropy` can act.

A relative level is known once the run's first rollouts have shown its initial entropy. Until then nothing is held.
"""

import logging
import math

from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.shaping import HoldEntropy
from steer_trl.trainer.trl import GRPOTrainer, steps_per_rollout

logger = logging.getLogger(__name__)

TEXT = (
    "hold_entropy has no effect: the run ends before its initial entropy is known, which is the mean over %d "
    "rollouts, and it has %d. Train for longer, or give the level in nats (hold_entropy_unit='nats')."
)


class LevelCheck(TrainerCallback):
    """Warns at the start of a run that is too short for its level to be known, or else at its end."""

    def __init__(self, trainer: GRPOTrainer, hold: HoldEntropy) -> None:
        self._trainer = trainer
        self._hold = hold
        self._is_reported = False

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Warn if the steps that are left have too few rollouts."""
        per_rollout = steps_per_rollout(self._trainer) / self._trainer.args.gradient_accumulation_steps
        left = state.max_steps - state.global_step
        rollouts = math.ceil(left / per_rollout)
        self._is_reported = left <= 0
        if 0 < rollouts < self._hold.start.missing:
            self._report(state, rollouts)

    def on_train_end(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Warn if the run has ended early, for instance by its budget of tokens."""
        self._report(state, 0)

    def _report(self, state: TrainerState, more: int) -> None:
        start = self._hold.start
        is_unknown = self._hold.level(0.0) is None
        if is_unknown and not self._is_reported and state.is_world_process_zero:
            logger.warning(TEXT, start.rollouts, start.rollouts - start.missing + more)
        self._is_reported = True
