"""The checkpoint: the methods' state, where TRL is in its rollout, and the rollout itself in the middle of one.

`shaping_state.json` is in every checkpoint that can be resumed, and `rollout_<rank>_of_<ranks>.pt` in those that were
saved in the middle of a rollout. Both are written first: any checkpoint that TRL considers complete contains them.
"""

import json
import logging
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list, gather_object, send_to_device
from torch import nn
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, sort_checkpoints
from trl import GRPOTrainer

from steer_trl.checkpoint import write_whole
from steer_trl.shaping import Shaper

logger = logging.getLogger(__name__)

STATE_FILE = "shaping_state.json"
ROLLOUT_FILE = "rollout_{rank}_of_{ranks}.pt"
PROGRESS = "progress"
"""Key of `shaping_state.json` beside the methods' names: how many micro-batches were trained on, and how many make a
rollout. Optimizer steps do not tell: an epoch that is no multiple of the accumulation ends with a shorter one."""


class ResumableTrainer(GRPOTrainer):
    """TRL's trainer that continues where it was killed, whatever the moment."""

    shapers: dict[str, Shaper]

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does; `resume_from_checkpoint=True` is the last complete checkpoint in `output_dir`."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_complete_checkpoint(self.args.output_dir)
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial=trial), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        if not self.args.save_only_model:
            folder.mkdir(parents=True, exist_ok=True)
            self._save_state(folder)
        super()._save_checkpoint(model, trial)

    def _save_state(self, folder: Path) -> None:
        state = {name: state for name, shaper in self.shapers.items() if (state := shaper.state_dict())}
        if self.args.should_save:
            progress = {"micro_batches": self._step, "per_rollout": self._steps_per_rollout()}
            text = json.dumps({PROGRESS: progress, **state}, indent=2)
            write_whole(folder / STATE_FILE, lambda path: path.write_text(text))
        if self._step % self._steps_per_rollout():
            rollout = {"geometry": self._geometry(), "buffered_inputs": self._buffered_inputs}
            write_whole(self._rollout_file(folder), lambda path: torch.save(rollout, path))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            path = Path(checkpoint, STATE_FILE)
            state = json.loads(path.read_text()) if path.exists() else {}
            self._load_methods(path, state)
            self._load_rollout(Path(checkpoint), state.get(PROGRESS))
            self._skip_orders(int(self.state.epoch or 0))

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._train_sampler = super()._get_train_sampler(dataset)
        return self._train_sampler

    def _skip_orders(self, epochs: int) -> None:
        """Draw the orders of the data that were used; TRL's sampler would begin a later epoch in the first's order."""
        if getattr(self._train_sampler, "generator", None) is not None:
            for _ in range(epochs):
                torch.randperm(self._train_sampler.num_samples, generator=self._train_sampler.generator)

    def _load_methods(self, path: Path, state: dict[str, Any]) -> None:
        for name, shaper in self.shapers.items():
            if name in state:
                try:
                    shaper.load_state_dict(state[name])
                except ValueError as error:
                    raise ValueError(f"{path}: {error}") from error
            elif shaper.state_dict():
                logger.warning("%s has no state of %r: it starts anew, as in a first rollout.", path, name)

    def _load_rollout(self, folder: Path, progress: dict[str, int] | None) -> None:
        if progress is None:  # TRL's own, or one of the weights only
            logger.warning(
                "%s does not say where in a rollout it was saved. The run continues with a new rollout, as TRL's "
                "does: completions of an unfinished one are not trained on, and the data may be read from another "
                "place than in an uninterrupted run.",
                folder,
            )
            return
        micro_batches, per_rollout = progress["micro_batches"], progress["per_rollout"]
        if micro_batches % per_rollout == 0:  # between two rollouts, where batch sizes may change
            self._step = micro_batches if per_rollout == self._steps_per_rollout() else 0
            return
        path = self._rollout_file(folder)
        if not all(gather_object([path.exists()])):  # the same answer on every rank
            raise ValueError(
                f"{folder} was saved in the middle of a rollout, and the rollout of every process must be in it, but "
                f"{path.name} or that of another process is not. Resume on as many processes as saved it, or from a "
                f"checkpoint between two rollouts, one without any {ROLLOUT_FILE.format(rank='*', ranks='*')}."
            )
        rollout = torch.load(path, map_location="cpu", weights_only=True)
        refuse_other_geometry(folder, rollout["geometry"], self._geometry())
        self._step = micro_batches
        self._buffered_inputs = send_to_device(rollout["buffered_inputs"], self.accelerator.device)

    def _geometry(self) -> dict[str, int]:
        """What a saved rollout was cut by."""
        names = ("per_device_train_batch_size", "steps_per_generation", "num_generations", "num_iterations")
        return {name: getattr(self.args, name) for name in names}

    def _steps_per_rollout(self) -> int:
        return self.args.steps_per_generation * self.num_iterations

    def _rollout_file(self, folder: Path) -> Path:
        accelerator = self.accelerator
        return folder / ROLLOUT_FILE.format(rank=accelerator.process_index, ranks=accelerator.num_processes)


def refuse_other_geometry(folder: Path, saved: dict[str, int], given: dict[str, int]) -> None:
    """Raise `ValueError` if a rollout was saved with other batch sizes than it is to be trained on with."""
    differences = [
        f"{name} must be {saved[name]}, got {value}" for name, value in given.items() if value != saved.get(name)
    ]
    if differences:
        raise ValueError(
            f"{folder} was saved in the middle of a rollout cut by other batch sizes: {', '.join(differences)}. "
            "Resume with the same batch sizes, or from a checkpoint between two rollouts."
        )


def last_complete_checkpoint(output_dir: str) -> str:
    """Return the last checkpoint of `output_dir` that was written to its end; say which later ones were not.

    Transformers writes `trainer_state.json` last. The main process decides for all. Collective.

    Raises:
        `ValueError`: there is none.
    """
    checkpoints = sort_checkpoints(output_dir)
    complete = [checkpoint for checkpoint in checkpoints if _is_complete(Path(checkpoint))]
    for skipped in checkpoints[checkpoints.index(complete[-1]) + 1 :] if complete else checkpoints:
        logger.warning("%s is skipped: it was not written to its end.", skipped)
    (last,) = broadcast_object_list([complete[-1] if complete else None])
    if last is None:
        raise ValueError(
            f"resume_from_checkpoint=True needs a complete checkpoint in output_dir={output_dir!r}, which has "
            "none. Leave it unset to begin anew."
        )
    return last


def _is_complete(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / TRAINER_STATE_NAME).read_text())
    except (OSError, ValueError):  # not there, or torn
        return False
    return True
