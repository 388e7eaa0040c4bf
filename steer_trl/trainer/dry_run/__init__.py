"""A dry run: one rollout and its gradient show what the run would be, before anything is updated.

twin.py       a twin of the trainer runs the real training up to its first update
twin_reading.py    completions, rewards, speeds and TRL's log of that step
shares.py     how much of the gradient each method leaves
step_size.py  how far a step moves the weights
rules.py      the rules of the alarms and some more, which give each row its mark
table.py      the result, and its table
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from steer_trl.support.exceptions import CannotContinueError
from steer_trl.trainer.dry_run.table import DryRun, Row, make_result
from steer_trl.trainer.dry_run.twin import lend_twin, read_first_step

__all__ = ["DryRun", "Row", "dry_run"]


def remove_empty(folder: Path) -> None:
    """Remove a `folder` that a trainer has made, and that is empty."""
    # Another process or user may have written to it.
    with suppress(OSError):
        folder.rmdir()


def dry_run(trainer: Any, *, trains_later: bool = True) -> DryRun:
    """Generate one rollout, compute its gradient, print a table that describes the run, and return it.

    `trainer` is a [`~trl.GRPOTrainer`] or a [`~steer_trl.SteerGRPOTrainer`] before its training. Nothing is updated or
    written, and `train` afterwards trains bit for bit as without the dry run. Callbacks of the user are not called.
    The state of a reward function, or of a vLLM server, is not restored. On several processes, all must call
    this function, and the main process prints.

    Args:
        trains_later (`bool`): whether the trainer is trained afterwards. FSDP cannot do that, because it changes the
            model in place. If not, the empty folder that TRL has made for completions is removed.

    Raises:
        `CannotContinueError`: the run has no update, or the trainer uses FSDP and is trained later.
    """
    if trains_later and trainer.is_fsdp_enabled:
        raise CannotContinueError(
            "FSDP changes the model in place, so the trainer could not train after a dry run. Use `steer-trl train "
            "--dry_run true`, or dry_run(trainer, trains_later=False) and a new trainer."
        )
    with lend_twin(trainer) as twin:
        result = make_result(twin, read_first_step(twin))
        del twin
    if not trains_later and trainer.is_world_process_zero():
        remove_empty(Path(trainer.args.output_dir, "completions"))
    if trainer.is_world_process_zero():
        print(result)  # noqa: T201
    return result
