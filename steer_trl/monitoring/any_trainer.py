"""`AlarmsCallback`: the alarms and the run log for trainers other than `SteerGRPOTrainer`."""

from typing import Any

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.monitoring import run_files
from steer_trl.monitoring.alarms import AlarmReporter, call_safely
from steer_trl.monitoring.group_log import GroupWatch, find_trainer
from steer_trl.monitoring.learning_rules import IS_TRUNCATED
from steer_trl.monitoring.run_log import RunLog, describe_run
from steer_trl.monitoring.sampling_log import FirstStep
from steer_trl.monitoring.sampling_warnings import truncation, warn_about_sampling_mismatch
from steer_trl.monitoring.watch import OF_TRAINING, AlarmWatch
from steer_trl.support.exceptions import InvalidValueError

ACTING = "_acting_alarms_callback"
"""The attribute of a training state that holds the active callback.

If a trainer has several of these callbacks, only the first is active.
"""


class AlarmsCallback(TrainerCallback):
    """
    Reports in one sentence why a GRPO run learns nothing, and what to change. It works with [`~trl.GRPOTrainer`],
    [`~trl.RLOOTrainer`], the asynchronous trainer, or a patched trainer.

    It reads the log, what the reward function returns and, in the first optimizer step, what the model returns. Each
    alarm is a warning on the terminal, a line of `_logs/alarms.jsonl` in `output_dir`, and an alert of trackio or
    Weights & Biases if `report_to` names that tracker. The log itself is written to `_logs/metrics.jsonl`, which
    `steer-trl report` reads. The log also has `rollout_pass@k` for k = 1, 2, 4, 8: the share of prompts that at least
    one of k completions solves, where a reward above 0 counts as solved. The callback never stops or changes a
    training run. [`SteerGRPOTrainer`] has all of it built in.

    Args:
        correct_reward (`str`, *optional*): name of the reward function that decides whether a completion is correct.
            Unset: the trainer's only one. A trainer with several then has no `rollout_pass@k` in its log.

    Example:

    ```python
    from steer_trl import AlarmsCallback

    trainer = GRPOTrainer(..., callbacks=[AlarmsCallback()])
    ```

    Raises:
        `ValueError`: the callback is given to a [`SteerGRPOTrainer`], which reports the same alarms itself, or, when
            the training begins, the trainer has no reward function called `correct_reward`.
    """

    def __init__(self, correct_reward: str | None = None) -> None:
        self._log = RunLog(describe_run)
        self._alarms = AlarmReporter(AlarmWatch())
        self._groups = GroupWatch(correct_reward)
        self._first_step: FirstStep | None = None

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
        """Start the log and the alarms, unless a different `AlarmsCallback` is active in this run.

        In a resumed run, the alarms first read the log entries up to the checkpoint.
        """
        # If this callback was added with `add_callback`, `on_init_end` has not been called before.
        self.on_init_end(args, state, control)
        if vars(state).setdefault(ACTING, self) is not self:
            return
        trainer = find_trainer(state)
        self._groups.check(trainer)
        # Other trainers, of supervised learning for example, sample nothing.
        samples = trainer is None or hasattr(trainer, "reward_funcs")
        if samples and state.is_world_process_zero:
            call_safely(warn_about_sampling_mismatch, args, model)
        # A `rollout_func` may return tokens that the policy has not sampled.
        is_read = samples and getattr(trainer, "rollout_func", None) is None
        self._first_step = call_safely(FirstStep, model, args) if is_read and isinstance(model, nn.Module) else None
        self._log.on_train_begin(args, state, control, model=model)
        if state.is_world_process_zero:
            call_safely(self._groups.begin, trainer)
        self._alarms.watch = AlarmWatch(facts={IS_TRUNCATED: 1.0} if truncation(args) is not None else {})
        for entry in state.log_history:
            call_safely(self._alarms.watch.read_entry, run_files.step_of(entry), entry)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop reading the passes of the first step."""
        if self._first_step is not None:
            self._first_step.end()

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Write a log entry, and report the alarms that it raises."""
        if vars(state).get(ACTING, self) is not self:
            return
        if logs is not None and logs.keys() & OF_TRAINING:
            groups = call_safely(self._groups.pop) or {}
            logs = logs | groups
            # Transformers has added the entry to the history just before. Checkpoints save the history.
            state.log_history[-1].update(groups)
        if self._first_step is not None and logs and state.is_world_process_zero:
            logs = {**logs, **(call_safely(self._first_step.take, logs) or {})}
        self._log.on_log(args, state, control, logs=logs)
        self._alarms.on_log(args, state, control, logs=logs)

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop reading the rewards."""
        self._groups.end()
