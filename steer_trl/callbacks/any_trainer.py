"""`AlarmsCallback`: the alarms and the run log for a trainer that is not ours, by one line in its script."""

import logging
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl import runlog
from steer_trl.callbacks.alarms import Alarms, guarded
from steer_trl.callbacks.run_log import RunLog, description
from steer_trl.diagnostics import Watch
from steer_trl.diagnostics.no_learning import SMALLEST_STEP
from steer_trl.exceptions import InvalidValueError

logger = logging.getLogger(__name__)

TENSORS, ENTRIES = 16, 4096  # of the weights that are looked at


class AlarmsCallback(TrainerCallback):
    """
    States in one sentence why a GRPO run learns nothing, and what to change: with [`~trl.GRPOTrainer`],
    [`~trl.RLOOTrainer`], the asynchronous trainer, or a patched one.

    It only reads what is logged. Each alarm is a warning on the terminal, a line of `_logs/alarms.jsonl` in
    `output_dir`, and an alert of trackio or Weights & Biases where `report_to` names one. The log itself is written to
    `_logs/metrics.jsonl`, so `steer-trl report` and `steer-trl` commands that read runs take the folder. It never ends
    or changes a training. [`SteerGRPOTrainer`] has all of it built in.

    Example:

    ```python
    from steer_trl import AlarmsCallback

    trainer = GRPOTrainer(..., callbacks=[AlarmsCallback()])
    ```

    Raises:
        `ValueError`: when it is given to a [`SteerGRPOTrainer`], which would give each alarm twice.
    """

    def __init__(self) -> None:
        self._log, self._alarms = RunLog(description), Alarms(Watch())
        self._has_seen_a_line = False

    def on_init_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Refuse a trainer that has the alarms built in."""
        if hasattr(args, "shaping_names"):
            raise InvalidValueError(
                "AlarmsCallback is for other trainers: SteerGRPOTrainer has the alarms built in (alarms=True, "
                "run_log=True). Remove it from callbacks."
            )

    def on_train_begin(
        self, args: Any, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Begin; a resumed run remembers its log up to its checkpoint."""
        self.on_init_end(args, state, control)  # again, for `add_callback`
        self._log.on_train_begin(args, state, control, model=model)
        self._alarms.watch = watch = Watch()
        if step := guarded(smallest_step, model, args):
            watch.note(**{SMALLEST_STEP: step})
        for entry in state.log_history:
            guarded(watch.take, runlog.step_of(entry), entry)

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Write a line of the log, and judge it."""
        self._log.on_log(args, state, control, logs=logs)
        self._alarms.on_log(args, state, control, logs=logs)
        if state.is_world_process_zero and logs and "loss" in logs and not self._has_seen_a_line:
            self._has_seen_a_line = True
            if "reward" not in logs:
                logger.warning(
                    "AlarmsCallback reads what GRPO trainers log, and the first line of this log has no 'reward': "
                    "most alarms cannot be given."
                )


def smallest_step(model: nn.Module | None, args: Any) -> float | None:
    """Return the step that half of some trained weights can just register, by rounding to the nearest.

    A weight changes when it moves by half the distance to its neighbour, and Adam moves each by about the learning
    rate. `None` where this is not known: other optimizers, and DeepSpeed, which keeps float32 copies of its own.
    """
    has_deepspeed = getattr(args, "deepspeed", None) or getattr(args, "deepspeed_plugin", None)
    if model is None or has_deepspeed or "adam" not in str(args.optim).lower():
        return None
    trained = [weight for weight in model.parameters() if weight.requires_grad and weight.is_floating_point()]
    steps = []
    for weight in trained[:: max(1, len(trained) // TENSORS)]:
        local = weight.to_local() if hasattr(weight, "to_local") else weight  # of FSDP's shards, this rank's
        some = local.detach().flatten()[:ENTRIES]
        some = some[some != 0].abs().float()  # a weight that is 0 registers anything
        steps.append(some * torch.finfo(weight.dtype).eps / 2)
    together = torch.cat([step.cpu() for step in steps]) if steps else torch.empty(0)
    return together.median().item() if len(together) else None
