"""The checkpoint: the state of methods and alarms, where TRL is in its rollout, and in the middle of one, all of it.

`shaping_state.json` is in every checkpoint that can be resumed, and `rollout_<rank>_of_<ranks>.pt` in those that were
saved in the middle of a rollout. Both are written first: any checkpoint that TRL considers complete contains them.
"""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate.utils import gather_object, send_to_device
from datasets import Dataset

from steer_trl.exceptions import CannotContinueError, InvalidValueError
from steer_trl.system import write_whole
from steer_trl.trainer.trl import (
    GRPOTrainer,
    continue_rollout,
    micro_batches_done,
    micro_batches_of_rollout,
    steps_per_rollout,
)

logger = logging.getLogger(__name__)

STATE_FILE = "shaping_state.json"
ROLLOUT_FILE = "rollout_{rank}_of_{ranks}.pt"
SETTINGS = "settings"
PROGRESS = "progress"
"""Keys of `shaping_state.json` beside the methods' names: what a resume should have in common with the run; how many
micro-batches were trained on, and how many make a rollout. Optimizer steps do not tell: an epoch that is no multiple
of the accumulation ends with a shorter one."""


class Stateful(Protocol):
    """A method, or anything else of a run that moves, as plain numbers."""

    def state_dict(self) -> dict[str, Any]:
        """Return what moves; empty where nothing does."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`]."""


@contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Turn what goes wrong inside on a full disk, whatever library wrote, into a sentence about it.

    Raises:
        `RuntimeError`: the disk is full.
    """
    try:
        yield
    except Exception as error:
        free, texts, cause = shutil.disk_usage(folder.parent).free, str(error), error.__context__
        while cause is not None:
            texts, cause = texts + str(cause), cause.__context__
        if free >= 2**20 and "No space left" not in texts and "quota exceeded" not in texts:
            raise
        raise CannotContinueError(
            f"{folder} could not be written: the disk is full, {free / 2**20:.0f} MiB are left. Earlier checkpoints "
            "are whole. Make room (save_total_limit keeps only so many of them), and go on from the last one with "
            "resume_from_checkpoint='auto'."
        ) from error


def save_state(trainer: GRPOTrainer, parts: Mapping[str, Stateful], folder: Path) -> None:
    """Write what `trainer` needs, beside TRL's own files, to be resumed at this moment."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: state for name, part in parts.items() if (state := part.state_dict())}
    if trainer.args.should_save:
        progress = {"micro_batches": micro_batches_done(trainer), "per_rollout": steps_per_rollout(trainer)}
        text = json.dumps({PROGRESS: progress, SETTINGS: _settings(trainer), **state}, indent=2)
        write_whole(folder / STATE_FILE, lambda path: path.write_text(text))
    if micro_batches_done(trainer) % steps_per_rollout(trainer):
        rollout = {"geometry": _geometry(trainer), "buffered_inputs": micro_batches_of_rollout(trainer)}
        write_whole(folder / _rollout_name(trainer), lambda path: torch.save(rollout, path))


def read_state(folder: Path) -> dict[str, Any]:
    """Return what `shaping_state.json` of a checkpoint has; empty where there is none, as in TRL's own."""
    path = folder / STATE_FILE
    return json.loads(path.read_text()) if path.exists() else {}


def load_state(trainer: GRPOTrainer, parts: Mapping[str, Stateful], sampler: Any, folder: Path) -> None:
    """Put `trainer`, its stateful `parts` and the `sampler` of its data where they were at [`save_state`]. Collective.

    `sampler` is `None` for a streamed data set, whose rows come in the order of the stream.

    Raises:
        `ValueError`: a state that cannot be, or a rollout of other processes or batch sizes.
    """
    path, state = folder / STATE_FILE, read_state(folder)
    _say_what_changed(folder, state.get(SETTINGS, {}), _settings(trainer))
    for name, part in parts.items():
        if name in state:
            try:
                part.load_state_dict(state[name])
            except ValueError as error:
                raise InvalidValueError(f"{path}: {error}") from error
        elif part.state_dict():
            logger.warning("%s has no state of %r: it starts from scratch, as in a first rollout.", path, name)
    if PROGRESS in state:
        _load_rollout(trainer, folder, **state[PROGRESS])
    else:  # TRL's own checkpoint, or one of the weights only
        logger.warning(
            "%s does not record where in a rollout it was saved. The run continues with a new rollout, as TRL's does: "
            "completions of an unfinished one are not trained on, and the data may be read from another place than in "
            "an uninterrupted run.",
            folder,
        )
    if sampler is None and (trainer.state.epoch or 0) > 1:
        logger.warning(
            "%s was saved in a later pass over a streamed train_dataset, and Transformers find the place in the first "
            "pass only: the run reads from the beginning of the second. Load the data set to read on where it was.",
            folder,
        )
    # TRL's sampler would begin a later epoch in the first one's order.
    if getattr(sampler, "generator", None) is not None:
        for _ in range(int(trainer.state.epoch or 0)):
            torch.randperm(sampler.num_samples, generator=sampler.generator)


def _settings(trainer: GRPOTrainer) -> dict[str, Any]:
    """What a run is not the same run without: its methods, its batches, its data."""
    args = trainer.args
    names = ("gradient_accumulation_steps", "steps_per_generation", "num_generations", "num_iterations")
    return {
        "advantage_shaping": list(args.shaping_names),
        "hold_entropy": args.hold_entropy,
        "hold_entropy_unit": args.hold_entropy_unit,
        "hold_entropy_final": args.hold_entropy_final,
        "hold_entropy_decay_start": args.hold_entropy_decay_start,
        "num_processes": trainer.accelerator.num_processes,
        "per_device_train_batch_size": args.per_device_train_batch_size,
        **{name: getattr(args, name) for name in names},
        "train_rows": len(trainer.train_dataset) if isinstance(trainer.train_dataset, Dataset) else None,
    }


def _say_what_changed(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    changed = [f"{name} {before[name]!r}, now {now[name]!r}" for name in before if before[name] != now.get(name)]
    if changed:
        logger.warning(
            "%s was saved by a run with other settings: %s. It continues with the current settings; its position in "
            "the data is counted in current batches.",
            folder,
            "; ".join(changed),
        )


def _load_rollout(trainer: GRPOTrainer, folder: Path, micro_batches: int, per_rollout: int) -> None:
    if micro_batches % per_rollout == 0:  # between two rollouts, where batch sizes may change
        continue_rollout(trainer, micro_batches if per_rollout == steps_per_rollout(trainer) else 0)
        return
    path = folder / _rollout_name(trainer)
    if not all(gather_object([path.exists()])):  # the same answer on every rank
        raise InvalidValueError(
            f"{folder} was saved in the middle of a rollout, and the rollout of every process must be in it, but "
            f"{path.name} or that of another process is not. Resume on as many processes as saved it, or from a "
            f"checkpoint between two rollouts, one without any {ROLLOUT_FILE.format(rank='*', ranks='*')}."
        )
    rollout = torch.load(path, map_location="cpu", weights_only=True)
    saved = rollout["geometry"]
    differences = [
        f"{name} must be {saved[name]}, got {n}" for name, n in _geometry(trainer).items() if n != saved[name]
    ]
    if differences:
        raise InvalidValueError(
            f"{folder} was saved in the middle of a rollout cut by other batch sizes: {', '.join(differences)}. "
            "Resume with the same batch sizes, or from a checkpoint between two rollouts."
        )
    continue_rollout(trainer, micro_batches, send_to_device(rollout["buffered_inputs"], trainer.accelerator.device))


def _geometry(trainer: GRPOTrainer) -> dict[str, int]:
    """What a saved rollout was cut by."""
    names = ("per_device_train_batch_size", "steps_per_generation", "num_generations", "num_iterations")
    return {name: getattr(trainer.args, name) for name in names}


def _rollout_name(trainer: GRPOTrainer) -> str:
    accelerator = trainer.accelerator
    return ROLLOUT_FILE.format(rank=accelerator.process_index, ranks=accelerator.num_processes)
