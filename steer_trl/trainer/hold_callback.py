"""Tells `hold_entropy` how the run's learning is spread over its steps, and the user when the entropy is let go.

If a resumed run has another length, the same step is another share of it, and the target may jump. That is reported.

The target of `hold_entropy` falls after a share of the learning (`entropy/learning.py`). The learning rates of all
steps follow from the scheduler. In a run that ends by `max_generated_tokens`, the number of steps is not known
beforehand, so the share of the tokens counts. The same holds for a scheduler that decides its rates while it runs.
"""

import logging
import math
from typing import Any

from torch.optim.lr_scheduler import LambdaLR
from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.entropy.hold import HoldEntropy
from steer_trl.trainer.generated import GeneratedTokens
from steer_trl.trainer.trl import GRPOTrainer, steps_per_rollout

logger = logging.getLogger(__name__)

TRAIN_LONGER = "Train for longer, or set the level in nats with hold_entropy_unit='nats'."
MOST_RATES = 1_000_000
"""The largest number of steps whose rates are computed. Of a longer run, evenly spaced steps are taken."""


class HoldCallback(TrainerCallback):
    """Prepares the controller of `hold_entropy` for a run, and reports its level and its release.

    `generated` knows which share of the run is done.
    """

    def __init__(self, trainer: GRPOTrainer, hold: HoldEntropy, generated: GeneratedTokens) -> None:
        self._trainer = trainer
        self._hold = hold
        self._generated = generated
        self._is_resumed = False
        self._has_told_level = False
        self._has_warned = False

    def on_train_begin(
        self, args: Any, state: TrainerState, control: TrainerControl, lr_scheduler: Any = None, **_: Any
    ) -> None:
        """Set the share of the run after which the target falls, and warn if the run is too short for a level.

        Must be called before the state of a checkpoint is loaded.
        """
        self._has_told_level = False
        self._has_warned = False
        self._is_resumed = state.global_step > 0
        rates = [] if args.max_generated_tokens else scheduled_rates(lr_scheduler, state.max_steps)
        self._hold.begin_training(rates)
        micro_batches = state.max_steps * args.gradient_accumulation_steps
        rollouts = math.ceil(micro_batches / steps_per_rollout(self._trainer))
        at_level = self._hold.count_rollouts_at_level(rollouts)
        if state.global_step == 0 and self._hold.unit is None and at_level < self._hold.start.rollouts:
            where = " before its level falls" if at_level < rollouts else ""
            self._warn_without_level(f"the run has {at_level}{where}")

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Report once, in a resumed run, how far its target jumps because the run has another length."""
        is_first = self._is_resumed
        self._is_resumed = False
        saved = self._generated.saved_share
        if not is_first or self._hold.regulator is None or saved is None or not state.is_world_process_zero:
            return
        now = self._generated.progress()
        path = self._hold.regulator.path
        if path.at(saved) != path.at(now):
            logger.warning(
                "%.3g %% of the run was done when the checkpoint was saved, and of its present length it is %.3g %%. "
                "So the target of hold_entropy goes from %.4g nats to %.4g at once. To keep it, resume with the same "
                "max_steps, num_train_epochs and max_generated_tokens.",
                *(100 * saved, 100 * now, path.at(saved), path.at(now)),
            )

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Print the level in nats and the steps in which it falls, as soon as the level is known."""
        if self._hold.regulator is None or self._has_told_level:
            return
        self._has_told_level = True
        if state.is_world_process_zero:
            with tqdm.external_write_mode():
                print(self._describe(args, state), flush=True)  # noqa: T201

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Warn if the level was never known, so that the entropy was not held."""
        if self._hold.regulator is None and state.global_step > 0 and not self._has_warned:
            skipped = self._hold.start.skipped
            if skipped:
                reason = f"{skipped} of the run's have an entropy that is not a finite number above 0"
                self._warn_without_level(reason, "Find out in the log what came first.")
            else:
                self._warn_without_level("the run ended before")

    def _describe(self, args: Any, state: TrainerState) -> str:
        assert self._hold.regulator is not None
        path = self._hold.regulator.path
        level = f"hold_entropy: the level is {path.level:.3g} nats"
        if not path.falls:
            return f"{level} to the end of the run"
        end = state.max_steps
        start = f"step {self._last_step_at_level(args, state)} of {end}"
        if args.max_generated_tokens:
            budget = args.max_generated_tokens
            # Whichever share of the run is larger counts, because the run ends with either.
            start = f"{round(path.release_start * budget):,} of {budget:,} generated tokens or {start}"
            return f"{level} until {start}, whichever comes first, then it falls to {path.final:.3g} at the end"
        return f"{level} until {start}, then it falls to {path.final:.3g} at step {end}"

    def _last_step_at_level(self, args: Any, state: TrainerState) -> int:
        """Return the last step before the target falls.

        A rollout keeps its target in all its steps.
        """
        assert self._hold.regulator is not None
        steps = max(steps_per_rollout(self._trainer) / args.gradient_accumulation_steps, 1.0)
        rollouts = self._hold.regulator.path.count_rollouts_at_level(state.max_steps / steps)
        return min(math.floor(rollouts * steps), state.max_steps)

    def _warn_without_level(self, reason: str, remedy: str = TRAIN_LONGER) -> None:
        self._has_warned = True
        if self._trainer.is_world_process_zero():
            logger.warning(
                "hold_entropy=%g does not hold its level in this run. The level is a multiple of the entropy of the "
                "first %d rollouts, and %s. %s",
                *(self._hold.args.hold_entropy, self._hold.start.rollouts, reason, remedy),
            )


def scheduled_rates(scheduler: Any, steps: int) -> list[float]:
    """Return the learning rates of a run of `steps` steps, summed over the optimizer's groups of parameters.

    The list is empty if the scheduler does not compute a rate from the number of its step alone.
    """
    # With DeepSpeed, Accelerate wraps the scheduler.
    scheduler = getattr(scheduler, "scheduler", scheduler)
    if not isinstance(scheduler, LambdaLR):
        return []
    groups = list(zip(scheduler.base_lrs, scheduler.lr_lambdas, strict=True))
    stride = math.ceil(steps / MOST_RATES)
    return [math.fsum(base * factor(step) for base, factor in groups) for step in range(0, steps, stride)]
