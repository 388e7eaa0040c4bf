"""Writes the run's log to `<output_dir>/_logs` as it comes; `steer_trl/runlog.py` says what is there."""

import logging
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl import runlog
from steer_trl.callbacks.checkout import find_commit
from steer_trl.options.base import changes_of, defaults_of
from steer_trl.redact import public
from steer_trl.system import installed

logger = logging.getLogger(__name__)

PACKAGES = ("steer_trl", "trl", "transformers", "torch", "accelerate", "peft", "vllm", "deepspeed")


class RunLog(TrainerCallback):
    """A line per log entry, written by the main process of a run that trains. No failure of it stops the run."""

    def __init__(self, describe: Callable[..., dict[str, Any]]) -> None:
        """`describe` makes of the arguments, the state and the model what `run.json` states."""
        self._describe = describe
        self._is_finished = self._failed = False
        self._open: TrainerState | None = None  # of the training whose log it is
        self._early: list[dict[str, Any]] = []

    def on_train_begin(
        self, args: Any, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Begin, or continue after the checkpoint's step; leave the log of a finished run as it is."""
        self._is_finished = is_at_its_end(state)
        if state.is_world_process_zero:
            self._open = state
        if state.is_world_process_zero and not self._is_finished:
            self._attempt(self._begin, args.output_dir, args, state, model)
            early, self._early = self._early, []
            for entry in early if state.global_step == 0 else []:  # else the log has them, or is another's
                self._attempt(runlog.append, args.output_dir, entry)

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Write a line. An evaluation before the training waits for it: without one, the folder's log is not ours."""
        if not state.is_world_process_zero or not logs or (self._is_finished and "train_runtime" in logs):
            return
        entry = {"step": state.global_step, "epoch": state.epoch} | logs
        if state is self._open:
            self._attempt(runlog.append, args.output_dir, entry)
        else:
            self._early.append(entry)

    def _begin(self, output_dir: str, args: Any, state: TrainerState, model: Any) -> None:
        runlog.begin(output_dir, state.global_step, self._describe(args, state, model) | find_commit())

    def _attempt(self, write: Callable[..., None], *given: Any) -> None:
        try:
            write(*given)
        except Exception:  # of a full disk, or of a value that nobody foresaw
            if not self._failed:
                text = "The run log in %s cannot be written; the training continues."
                logger.warning(text, given[0], exc_info=True)
            self._failed = True


def is_at_its_end(state: TrainerState) -> bool:
    """Whether a training in this state has no step left. Transformers would train one more, and save it."""
    return 0 < state.max_steps <= state.global_step


def description(args: Any, state: TrainerState, model: Any = None) -> dict[str, Any]:
    """Return what `run.json` states of the run of any trainer: settings that may leave the machine, and versions."""
    return {
        "methods": [],
        "model": getattr(getattr(model, "config", None), "_name_or_path", None) or None,
        "max_steps": state.max_steps,
        "processes": args.world_size,
        "settings": public(changes_of(args)),
        "defaults": public(defaults_of(args)),
        "versions": installed(PACKAGES),
    }
