"""Exports some whole groups token by token, every few optimizer steps, to `<output_dir>/_logs/tokens`.

When a rollout is built, the row number of each completion is added as a column, which TRL shuffles and splits with the
rest. While the rollout is trained on for the first time, each rank collects the lines of the chosen groups. The main
process writes the lines of all ranks at the end of each optimizer step.
"""

from math import ceil
from typing import Any

import torch
from accelerate.utils import gather_object

from steer_trl.monitoring import run_files
from steer_trl.shaping import Shaped, TokenBatch
from steer_trl.trainer.correctness import total_reward
from steer_trl.trainer.inputs import EXPORT_STEP, REWARDS, ROWS
from steer_trl.trainer.log.guard import ignore_failure
from steer_trl.trainer.log.token_export import line_of, token_numbers
from steer_trl.trainer.rollout import RolloutShaping
from steer_trl.trainer.trl import GRPOTrainer, find_position, steps_per_rollout
from steer_trl.trainer.whole_groups import own_rows

GROUPS = 2
"""The number of groups in each export."""


class TokenLog:
    """Exports the tokens of a few groups every `log_tokens` steps.

    A rollout that is exported has the additional columns `ROWS` and `REWARDS`, and the step `EXPORT_STEP` at which its
    training begins.
    """

    def __init__(self, trainer: GRPOTrainer, rollouts: RolloutShaping) -> None:
        self._trainer = trainer
        self._rollouts = rollouts
        self.begin_training()

    def begin_training(self) -> None:
        """Discard an export that was interrupted."""
        self._lines: list[dict[str, Any]] = []
        # The step that names the file of the current micro-batch, if it is exported.
        self._export_step: torch.Tensor | None = None

    def mark(self, rollout: dict[str, Any]) -> dict[str, Any]:
        """Return the rollout. If it is to be exported, add the row numbers and rewards of its completions."""
        step = self._trainer.state.global_step + 1
        if self._is_due(step):
            rows = own_rows(self._trainer, rollout)
            rollout[ROWS] = rows
            rollout[REWARDS] = self._rollouts.rewards_per_function[rows]
            rollout[EXPORT_STEP] = torch.tensor(step)
        return rollout

    def exports(self, inputs: dict[str, Any]) -> bool:
        """Return whether the micro-batch `inputs` is exported. The result is the same on all ranks."""
        return EXPORT_STEP in inputs and find_position(self._trainer).is_in_first_iteration

    @torch.no_grad()
    def add(self, inputs: dict[str, Any], batch: TokenBatch, result: Shaped) -> None:
        """Collect the lines of `inputs`, a micro-batch or a part of one, if it is exported."""
        if not self.exports(inputs):
            return
        self._export_step = inputs[EXPORT_STEP]
        with ignore_failure(self._trainer, "The export of single tokens has failed"):
            self._lines += self._lines_of(inputs, batch, result)

    def write(self) -> None:
        """Write the collected lines after the last micro-batch of an optimizer step or of a rollout. Collective."""
        if self._export_step is None:
            return
        position = find_position(self._trainer)
        is_last = position.of_rollout == position.per_iteration - 1
        if self._trainer.accelerator.sync_gradients or is_last:
            self._write(int(self._export_step))
        self._export_step = None

    def _lines_of(self, inputs: dict[str, Any], batch: TokenBatch, result: Shaped) -> list[dict[str, Any]]:
        trainer = self._trainer
        lines = []
        size = trainer.num_generations
        numbers = token_numbers(inputs, batch, result)
        for row in (inputs[ROWS] < GROUPS * size).nonzero().flatten().tolist():
            place = int(inputs[ROWS][row])
            rewards = inputs[REWARDS][row].tolist()
            fields = {
                "step": trainer.state.global_step + 1,
                "export_step": int(inputs[EXPORT_STEP]),
                "group": place // size,
                "completion": place % size,
                "reward": total_reward(trainer, inputs[REWARDS][row : row + 1]).item(),
                "rewards": dict(zip(trainer.reward_func_names, rewards, strict=True)),
            }
            lines.append(line_of(trainer, inputs, batch, numbers, row, fields))
        return lines

    def _is_due(self, step: int) -> bool:
        """Return whether the rollout that begins at `step` covers the first step or a multiple of `log_tokens`."""
        interval = self._trainer.args.log_tokens
        if not interval:
            return False
        last_step = step - 1 + ceil(steps_per_rollout(self._trainer) / self._trainer.args.gradient_accumulation_steps)
        return step == 1 or last_step // interval > (step - 1) // interval

    def _write(self, export_step: int) -> None:
        lines = gather_object(self._lines)
        self._lines = []
        output_dir = self._trainer.args.output_dir
        path = run_files.token_path(output_dir, export_step)
        if not self._trainer.is_world_process_zero():
            return
        with ignore_failure(self._trainer, "The file of single tokens cannot be written"):
            # Before the first lines of a rollout are written, the file of an earlier run is removed. If one step has
            # several rollouts, the last of them stays.
            if find_position(self._trainer).of_rollout < self._trainer.args.gradient_accumulation_steps:
                path.unlink(missing_ok=True)
            for line in sorted(lines, key=lambda line: (line["group"], line["completion"])):
                run_files.append(output_dir, line, f"{run_files.TOKENS}/{path.name}")
