"""The checkpoint: the methods' state, and the rollout where TRL is in the middle of one."""

import json
import logging
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch import nn
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer

from steer_trl.checkpoint import write_whole
from steer_trl.shaping import Shaper

logger = logging.getLogger(__name__)

STATE_FILE = "shaping_state.json"


class ResumableTrainer(GRPOTrainer):
    """TRL's trainer that goes on where it was killed, whatever the moment."""

    shapers: dict[str, Shaper]

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial=trial), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        if not self.args.save_only_model:
            folder.mkdir(parents=True, exist_ok=True)
            self._save_state(folder)  # before the rest: a checkpoint that TRL takes for whole has it
        super()._save_checkpoint(model, trial)

    def _save_state(self, folder: Path) -> None:
        state = {name: state for name, shaper in self.shapers.items() if (state := shaper.state_dict())}
        if state and self.args.should_save:
            write_whole(folder / STATE_FILE, lambda path: path.write_text(json.dumps(state, indent=2)))
        if self._step % self._steps_per_rollout():
            rollout = {"step": self._step, "buffered_inputs": self._buffered_inputs}
            write_whole(self._rollout_file(folder), lambda path: torch.save(rollout, path))

    def _steps_per_rollout(self) -> int:
        return self.args.steps_per_generation * self.num_iterations

    def _rollout_file(self, folder: Path) -> Path:
        return folder / f"rollout_{self.accelerator.process_index}_of_{self.accelerator.num_processes}.pt"

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint, STATE_FILE)
        saved = json.loads(path.read_text()) if path.exists() else {}
        for name, shaper in self.shapers.items():
            if name in saved:
                shaper.load_state_dict(saved[name])
            elif shaper.state_dict():
                logger.warning("%s has no state of %r: it starts anew, as in a first rollout.", path, name)
        self._load_rollout(Path(checkpoint))

    def _load_rollout(self, folder: Path) -> None:
        step = self.state.global_step * self.args.gradient_accumulation_steps
        if step % self._steps_per_rollout() == 0:
            return
        path = self._rollout_file(folder)
        if not path.exists():
            every = self._steps_per_rollout() // self.args.gradient_accumulation_steps
            raise ValueError(
                f"{folder} is refused: it was saved in the middle of a rollout, and {path.name} is not in it. Resume "
                "on as many processes as saved it, with the same batch sizes, or from a checkpoint whose step is a "
                f"multiple of {every}."
            )
        rollout = torch.load(path, map_location="cpu", weights_only=True)
        self._step = rollout["step"]
        self._buffered_inputs = send_to_device(rollout["buffered_inputs"], self.accelerator.device)
