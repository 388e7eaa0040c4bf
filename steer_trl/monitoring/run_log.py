"""Writes the run's log to `<output_dir>/_logs` during training; see `run_files.py` for the files."""

import logging
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.monitoring import run_files
from steer_trl.monitoring.checkout import find_commit
from steer_trl.options.base import find_changes, find_defaults
from steer_trl.support.redact import select_public
from steer_trl.support.system import find_versions

logger = logging.getLogger(__name__)

PACKAGES = ("steer_trl", "trl", "transformers", "torch", "accelerate", "peft", "vllm", "deepspeed")


class RunLog(TrainerCallback):
    """Writes each log entry as a line of the run's log, on the main process. A failure never stops the run."""

    def __init__(self, describe: Callable[..., dict[str, Any]]) -> None:
        """Store `describe`, which returns the contents of `run.json`, given the arguments, state and model."""
        self._describe = describe
        self._is_finished = self._failed = False
        # The state of the training run whose log is open.
        self._open: TrainerState | None = None
        self._early: list[dict[str, Any]] = []

    def on_train_begin(
        self, args: Any, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Begin the log, or continue it after the checkpoint's step.

        The log of a finished run stays as it is.
        """
        self._is_finished = is_at_its_end(state)
        if state.is_world_process_zero:
            self._open = state
        if state.is_world_process_zero and not self._is_finished:
            self._attempt(self._begin, args.output_dir, args, state, model)
            # The log of a resumed run already has the entries from before training.
            for entry in self._early if state.global_step == 0 else []:
                self._attempt(run_files.append, args.output_dir, entry)
            self._early = []

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Write a log entry. Entries from before training are held back until training starts."""
        if not state.is_world_process_zero or not logs or (self._is_finished and "train_runtime" in logs):
            return
        entry = {"step": state.global_step, "epoch": state.epoch} | logs
        if state is self._open:
            self._attempt(run_files.append, args.output_dir, entry)
        else:
            self._early.append(entry)

    def _begin(self, output_dir: str, args: Any, state: TrainerState, model: Any) -> None:
        run_files.begin(output_dir, state.global_step, self._describe(args, state, model) | find_commit())

    def _attempt(self, write: Callable[..., None], *arguments: Any) -> None:
        try:
            write(*arguments)
        # The cause may be a full disk, or a value of an unexpected type.
        except Exception:
            if not self._failed:
                text = "The run log in %s cannot be written; the training continues."
                logger.warning(text, arguments[0], exc_info=True)
            self._failed = True


def is_at_its_end(state: TrainerState) -> bool:
    """Return whether a run in this state has no optimizer steps left.

    If such a run is resumed, Transformers alone would train one more step and save it.
    """
    return 0 < state.max_steps <= state.global_step


def describe_run(args: Any, state: TrainerState, model: Any = None) -> dict[str, Any]:
    """Return the contents of `run.json` for any trainer. Settings that may hold secrets are left out."""
    return {
        "methods": [],
        "model": getattr(getattr(model, "config", None), "_name_or_path", None) or None,
        "max_steps": state.max_steps,
        "processes": args.world_size,
        "settings": select_public(find_changes(args)),
        "defaults": select_public(find_defaults(args)),
        "versions": find_versions(PACKAGES),
    }
