"""Saves and restores the state of methods and alarms and, in the middle of a rollout, the rollout itself.

Every checkpoint that can be resumed has a file `shaping_state.json`. A checkpoint that was saved in the middle of a
rollout also has a file `rollout_<rank>_of_<ranks>.pt` for each rank. These files are written before TRL's own files,
so that any checkpoint that TRL considers complete contains them.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object, send_to_device
from datasets import IterableDataset
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_jit_checkpoint import JITCheckpointCallback

from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.system import write_text_whole, write_whole
from steer_trl.support.validation import read_from_state
from steer_trl.trainer.checkpoints.made_with import OF_OPTIMIZER, describe, find_changed
from steer_trl.trainer.checkpoints.saved import (
    ROLLOUT_FILE,
    STATE_FILE,
    has_optimizer,
    name_file,
    read_state,
    read_tensors,
)
from steer_trl.trainer.ranks import raise_together, read_on_main
from steer_trl.trainer.sampling.prompts import find_sampler
from steer_trl.trainer.sampling.resample import Resampling
from steer_trl.trainer.trl import (
    GRPOTrainer,
    continue_rollout,
    micro_batches_done,
    micro_batches_of_rollout,
    steps_per_rollout,
)

logger = logging.getLogger(__name__)

SETTINGS = "settings"
"""Key in `shaping_state.json` of the settings in `GEOMETRY`."""
MADE_WITH = "made_with"
"""Key in `shaping_state.json` of the method, the level, the data and the number of processes (`made_with.py`)."""
PROGRESS = "progress"
"""Key in `shaping_state.json` of the number of micro-batches trained on so far, and of their number per rollout.

Micro-batches are counted instead of optimizer steps, because steps may have different numbers of micro-batches.
"""
SCALED = "share_of_tokens"
"""Key in the micro-batches of rollouts that an earlier version saved. They have different numbers of rows."""
GEOMETRY = (
    *("per_device_train_batch_size", "steps_per_generation", "gradient_accumulation_steps"),
    *("num_generations", "num_iterations"),
)
"""The settings that decide how a rollout is split into micro-batches and optimizer steps."""
WHOLE = (lambda value: type(value) is int and 0 <= value < 10**15, "a whole number >= 0")
"""The test of a count in a checkpoint, and its description."""


class Checkpoints(TrainerCallback):
    """Saves and loads the state that TRL's files lack, so that a `trainer` can resume at any optimizer step.

    `parts` maps a name to each object whose state changes. The object's `state_dict` returns plain numbers, and its
    `load_state_dict` also accepts the state that the object had before training. `continued` is the checkpoint from
    which the current training run was resumed, or `None`.
    """

    def __init__(self, trainer: GRPOTrainer, parts: Mapping[str, Any], resampling: Resampling | None) -> None:
        self._trainer = trainer
        self._parts = parts
        self._resampling = resampling
        self._first_states = {name: part.state_dict() for name, part in parts.items()}
        self.continued: str | None = None

    def begin_training(self, checkpoint: str | None) -> None:
        """Reset every part to its state before training, so that earlier calls of `train` have no effect."""
        self.continued = checkpoint
        for name, part in self._parts.items():
            if part.state_dict() != self._first_states[name]:
                part.load_state_dict(self._first_states[name])

    def save(self, folder: Path) -> None:
        """Write the current state to `folder`. All ranks must call this method."""
        trainer = self._trainer
        micro_batches = micro_batches_done(trainer)
        folder.mkdir(parents=True, exist_ok=True)
        states = {name: state for name, part in self._parts.items() if (state := part.state_dict())}
        if trainer.args.should_save:
            # A checkpoint that is written over is not complete before Transformers writes this file again, its last.
            (folder / TRAINER_STATE_NAME).unlink(missing_ok=True)
            progress = {"micro_batches": micro_batches, "per_rollout": steps_per_rollout(trainer)}
            facts = {PROGRESS: progress, SETTINGS: _find_geometry(trainer), MADE_WITH: describe(trainer)}
            text = json.dumps(facts | states, indent=2)
            write_text_whole(folder / STATE_FILE, text)
        if micro_batches % steps_per_rollout(trainer):
            rollout = micro_batches_of_rollout(trainer)
            write_whole(folder / _rollout_name(trainer), lambda path: torch.save(rollout, path))
        if self._resampling is not None:
            self._resampling.save(folder)

    def on_train_begin(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        train_dataloader: DataLoader | None = None,
        **_: Any,
    ) -> None:
        """Begin dynamic sampling if it is on.

        In a resumed run, restore all parts and the order of the training data.

        All ranks must call this method together.
        """
        # The sampler is read once, here, because a callback may make a new data loader at any time.
        is_streamed = isinstance(self._trainer.train_dataset, IterableDataset)
        sampler = None if is_streamed or train_dataloader is None else find_sampler(train_dataloader)
        if self._resampling is not None:
            self._resampling.begin_training(train_dataloader)
        if self.continued is None:
            return
        folder = Path(self.continued)
        epoch = state.epoch or 0
        self._load(folder)
        if is_streamed and epoch > 1:
            text = "%s is of a later pass over a streamed train_dataset, which the run reads from its beginning."
            logger.warning(text, folder)
        # A sampler has a random generator only if it shuffles. It draws an order whenever an iteration begins. Without
        # the draws below, a resumed run would repeat the order of the first epoch.
        if sampler is not None and getattr(sampler, "generator", None) is not None:
            for _passed in range(int(epoch)):
                next(iter(sampler), None)
        if self._resampling is not None:
            self._resampling.load(folder)

    def _report_changes(self, folder: Path, before: dict[str, Any] | None) -> None:
        """Warn, once, of everything that was different when the checkpoint was saved."""
        if before is None:
            return
        now = describe(self._trainer)
        with name_file(folder / STATE_FILE, MADE_WITH):
            changed = find_changed(before, now)
        kept = [name for name in changed if name in OF_OPTIMIZER] if has_optimizer(folder) else []
        new = [f"{name} from {before[name]!r} to {now[name]!r}" for name in changed if name not in kept]
        if not self._trainer.is_world_process_zero():
            return
        if new:
            text = "%s was saved by a run with other settings, and goes on with new ones: %s."
            logger.warning(text, folder, "; ".join(new))
        if kept:
            logger.warning(
                "%s keeps %s, and %s of this run is ignored, as in TRL: an optimizer is restored with its settings. "
                "To train with others, begin a new run with this folder as its model.",
                folder,
                ", ".join(f"{name}={before[name]!r}" for name in kept),
                ", ".join(f"{name}={now[name]!r}" for name in kept),
            )

    def _load(self, folder: Path) -> None:
        path = folder / STATE_FILE
        state = read_on_main(self._trainer.accelerator, lambda: read_state(folder))
        self._report_changes(folder, state.get(MADE_WITH))
        self._report_missing(folder, state)
        for name, part in self._parts.items():
            if name in state:
                with name_file(path, name):
                    part.load_state_dict(state[name])
        if PROGRESS in state:
            with name_file(path, f"{PROGRESS} and {SETTINGS}"):
                settings = state.get(SETTINGS)
                # A checkpoint of an earlier version has only some of these settings.
                names = [name for name in GEOMETRY if not isinstance(settings, dict) or name in settings]
                geometry = {name: read_from_state(settings, name, *WHOLE) for name in names}
                micro_batches = read_from_state(state[PROGRESS], "micro_batches", *WHOLE)
                per_rollout = read_from_state(state[PROGRESS], "per_rollout", *WHOLE)
            _load_rollout(self._trainer, folder, geometry, micro_batches, max(per_rollout, 1))

    def _report_missing(self, folder: Path, state: Mapping[str, Any]) -> None:
        """Warn of everything that the checkpoint lacks and that starts anew."""
        if not self._trainer.is_world_process_zero():
            return
        path = folder / STATE_FILE
        for name, part in self._parts.items():
            if name not in state and part.state_dict():
                logger.warning("%s has no state of %r: it starts from scratch, as in a first rollout.", path, name)
        args = self._trainer.args
        if args.sync_ref_model and args.beta != 0:
            logger.warning(
                "%s has no reference model, since TRL saves none. With sync_ref_model=True, the reference is the "
                "initial model again until its next synchronization.",
                folder,
            )
        is_relative = args.hold_entropy is not None and args.hold_entropy_unit == "initial"
        if is_relative and not {"start_entropy", "hold_entropy"} & state.keys():
            logger.warning(
                "%s has no initial entropy, so hold_entropy=%g is a multiple of the entropy of the next rollouts. If "
                "the entropy has fallen already, set the level in nats with hold_entropy_unit='nats'.",
                *(path, args.hold_entropy),
            )
        if args.max_generated_tokens is not None and "generated" not in state:
            logger.warning(
                "%s has no count of generated tokens, so max_generated_tokens=%d counts from this checkpoint on.",
                *(path, args.max_generated_tokens),
            )
        if PROGRESS not in state:
            # The checkpoint was saved by TRL's own trainer, or contains only the weights.
            logger.warning(
                "%s does not record where in a rollout it was saved: the run continues with a new one, as TRL's does.",
                folder,
            )
        elif not has_optimizer(folder):
            logger.warning(
                "%s has no optimizer, although the run saved one: the optimizer and the schedule of the learning rate "
                "start anew, as in TRL.",
                folder,
            )


def postpone_checkpoints(trainer: GRPOTrainer) -> None:
    """Let the checkpoint at a signal (`enable_jit_checkpoint`) wait for the end of the step.

    Transformers may write it before the update, when the rollout is a step further than the weights.
    """
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, JITCheckpointCallback):
            vars(callback)["on_pre_optimizer_step"] = lambda *_, **__: None


def _find_geometry(trainer: GRPOTrainer) -> dict[str, int]:
    """Return the values of the settings in `GEOMETRY`."""
    return {name: getattr(trainer.args, name) for name in GEOMETRY}


def _load_rollout(
    trainer: GRPOTrainer, folder: Path, geometry: dict[str, int], micro_batches: int, per_rollout: int
) -> None:
    """Continue after the saved number of micro-batches, if need be in the middle of the saved rollout. Collective.

    `geometry` has the settings with which the rollout was split.
    """
    # Between two rollouts, batch sizes may change.
    if micro_batches % per_rollout == 0:
        continue_rollout(trainer, micro_batches if per_rollout == steps_per_rollout(trainer) else 0)
        return
    path = folder / _rollout_name(trainer)
    # If the file of one rank is missing, every rank must raise, so that no rank waits for another.
    if not all(gather_object([path.exists()])):
        raise InvalidValueError(
            f"{folder} was saved in the middle of a rollout, and the rollout of every process must be in it, but "
            f"{path.name} or that of another process is not. Resume on as many processes as saved it, or from a "
            f"checkpoint between two rollouts, one without any {ROLLOUT_FILE.format(rank='*', ranks='*')}."
        )
    now = _find_geometry(trainer)
    changed = [f"{name} must be {value}, got {now[name]}" for name, value in geometry.items() if now[name] != value]
    if changed:
        raise InvalidValueError(
            f"{folder} was saved in the middle of a rollout cut by other batch sizes: {', '.join(changed)}. Resume "
            "with the same batch sizes, or from a checkpoint between two rollouts."
        )
    with raise_together(trainer.accelerator):
        rollout = read_tensors(path)
    # Every rank reads a file of the same version, so all of them raise.
    if any(SCALED in batch for batch in rollout):
        raise InvalidValueError(
            f"{folder} was saved in the middle of a rollout by an earlier version of this package, in whose micro-"
            "batches the numbers of rows differ, so that this version would compute another loss. Resume from a "
            f"checkpoint between two rollouts, one without any {ROLLOUT_FILE.format(rank='*', ranks='*')}, or with "
            "the version that saved it."
        )
    continue_rollout(trainer, micro_batches, send_to_device(rollout, trainer.accelerator.device))


def _rollout_name(trainer: GRPOTrainer) -> str:
    accelerator = trainer.accelerator
    return ROLLOUT_FILE.format(rank=accelerator.process_index, ranks=accelerator.num_processes)
