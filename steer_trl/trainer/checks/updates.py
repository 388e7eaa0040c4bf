"""Checks that training changes the model.

A model without trainable parameters is an error. If its parameters do not change during training, an alarm is raised.
"""

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.monitoring.alarms import AlarmReporter
from steer_trl.monitoring.watch import Alarm
from steer_trl.support.validation import refuse
from steer_trl.trainer.log.guard import ignore_failure
from steer_trl.trainer.trl import GRPOTrainer

PATIENCE = 20
"""Number of optimizer steps without any change to the model before the alarm is raised."""
SAMPLED = 64
"""Approximate number of values compared per parameter. A copy of all values would take too much memory."""
EXPLAINED_BY = {"one_reward", "no_advantage", "no_gradient"}
"""While one of these alarms holds, a model that does not change is its consequence."""
TEXT = (
    "None of {count} sampled values of the model's parameters has changed in {steps} optimizer steps. Is the learning "
    "rate 0, or too small for the precision of the weights (load them in float32)? Does the optimizer that you passed "
    "hold the parameters of another model?"
)


def check_trainable(model: nn.Module) -> None:
    """Raise if all parameters of the model are frozen.

    With a KL penalty, a run without trainable parameters would have curves that look healthy.
    """
    if not any(parameter.requires_grad for parameter in model.parameters()):
        complaint = "model has no trainable parameter. Load a LoRA adapter with PeftModel.from_pretrained(..., "
        refuse([f"{complaint}is_trainable=True), or give peft_config for a new one."], "SteerGRPOTrainer")


class FrozenModelAlarm(TrainerCallback):
    """Compares sampled parameters with their values at the start of training until one has changed."""

    def __init__(self, trainer: GRPOTrainer, alarms: AlarmReporter) -> None:
        self._trainer = trainer
        self._alarms = alarms
        self._first: Tensor | None = None
        self._first_step = 0

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Keep a sample of the parameters at the start of the run."""
        self._first_step = state.global_step
        with ignore_failure(self._trainer, "The check for unchanged parameters has failed"):
            self._first = _sample(self._trainer.model)

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Compare the parameters with the sample, and raise the alarm at most once.

        The alarm is not raised while another alarm explains it.
        """
        # Only the main process has read the log, and writes files.
        if not state.is_world_process_zero:
            return
        first = self._first
        steps = state.global_step - self._first_step
        if first is None:
            return
        # The log may explain it, unless nothing is logged.
        is_read = self._alarms.watch.has_read or self._trainer.args.logging_strategy == "no"
        has_changed = not len(first) or not torch.equal(first, _sample(self._trainer.model))
        if has_changed:
            self._first = None
        elif steps >= PATIENCE and is_read and EXPLAINED_BY.isdisjoint(self._alarms.watch.find_holding()):
            self._first = None
            text = TEXT.format(count=len(first), steps=steps)
            alarm = Alarm(state.global_step, "no_update", "The model does not change", text, "error", {})
            self._alarms.report(alarm, self._trainer.args)


def _sample(model: nn.Module) -> Tensor:
    """Return a sample of every trainable parameter's values.

    A sharded parameter is sampled from this rank's shard.
    """
    parts = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            # DeepSpeed's ZeRO-3 keeps a rank's shard in `ds_tensor`, and FSDP2 keeps it in a DTensor.
            shard = getattr(parameter, "ds_tensor", parameter).detach()
            shard = shard.to_local() if hasattr(shard, "to_local") else shard
            parts.append(shard.flatten()[:: max(shard.numel() // SAMPLED, 1)].float())
    return torch.cat(parts)
