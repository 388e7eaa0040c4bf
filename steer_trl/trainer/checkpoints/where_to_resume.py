"""Finds where a training run begins: at step 0, or at a checkpoint.

If `output_dir` already holds a different run, this module warns or raises.
"""

import json
import logging
from pathlib import Path

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers.trainer import TRAINER_STATE_NAME

from steer_trl.monitoring.run_files import find_checkpoints, find_run_files
from steer_trl.support.exceptions import CannotContinueError, InvalidValueError
from steer_trl.trainer.checkpoints.saved import are_whole, find_torn

logger = logging.getLogger(__name__)

AUTO = "auto"


def starting_point(choice: str | bool | None, output_dir: str) -> str | None:
    """Return the checkpoint from which a training run resumes; `None` if it begins at step 0. Collective.

    `choice` is the folder of a checkpoint, or `True` for the last complete checkpoint in `output_dir`. `"auto"` means
    the same as `True`, except that the run begins at step 0 if there is no checkpoint. Raises `ValueError` if `choice`
    is `True` and there is no checkpoint, or if `output_dir` holds a run to which the given checkpoint does not belong.
    Raises `CannotContinueError` if a file of the given checkpoint is damaged.
    """
    if choice is True or choice == AUTO:
        checkpoint = last_complete_checkpoint(output_dir)
    else:
        checkpoint = str(choice) if choice else None
        check_files(checkpoint)
    if checkpoint is None and choice is True:
        raise InvalidValueError(
            f"resume_from_checkpoint=True needs a complete checkpoint in output_dir={output_dir!r}, which has none. "
            "Leave it unset to begin at step 0, or set it to 'auto', which resumes only where there is one."
        )
    if checkpoint is not None and _is_in(Path(checkpoint), Path(output_dir)):
        _warn_of_later(Path(checkpoint), Path(output_dir))
        return checkpoint
    (files,) = broadcast_object_list([find_run_files(Path(output_dir))])
    file_names = ", ".join(path.name for path in files[:3])
    if files and checkpoint is not None:
        raise InvalidValueError(
            f"output_dir={output_dir!r} holds a run ({file_names}), and resume_from_checkpoint={checkpoint!r} is of "
            "another: its checkpoints and its log would be written over. Give an output_dir that holds no run, or "
            f"that of the checkpoint, {str(Path(checkpoint).parent)!r}; or set resume_from_checkpoint to true to "
            "continue the run in output_dir."
        )
    if files:
        logger.warning(
            "output_dir=%r holds a run (%s), and this one begins at step 0: it writes over checkpoints of the same "
            "steps, save_total_limit may remove others, and a later resume would take the rest for its own. To "
            "continue that run, call train(resume_from_checkpoint=True); otherwise give another output_dir.",
            *(output_dir, file_names),
        )
    return checkpoint


def _warn_of_later(checkpoint: Path, output_dir: Path) -> None:
    """Warn of complete checkpoints after the one that the run goes back to: a later resume would take the last."""
    existing = find_checkpoints(output_dir)
    names = [path.name for path in existing]
    place = names.index(checkpoint.name) if checkpoint.name in names else 0
    later = [path.name for path in existing[:place] if is_complete(path)]
    if later and PartialState().is_main_process:
        logger.warning(
            "This run goes back to %s, and %s holds later checkpoints of the run before it (%s). This run writes over "
            "them when it reaches their steps, and save_total_limit may remove them. If this run is interrupted, "
            "resume_from_checkpoint=True or 'auto' would continue the last of them: move or remove them.",
            *(checkpoint.name, output_dir, ", ".join(later[:3])),
        )


def check_files(checkpoint: str | None) -> None:
    """Raise `CannotContinueError` if a file that Transformers would read is damaged, because its error names none.

    Files that do not exist are not missed: a checkpoint may hold the weights alone. Collective.
    """
    damaged = None
    if checkpoint is not None:
        state = Path(checkpoint, TRAINER_STATE_NAME)
        damaged = state if state.is_file() and not _has_step(state) else find_torn(Path(checkpoint))
    (damaged,) = broadcast_object_list([damaged])
    if damaged is not None:
        raise CannotContinueError(
            f"{damaged} is damaged: it was not written to its end, or was changed. Resume from an earlier checkpoint, "
            "or restore the file."
        )


def _is_in(checkpoint: Path, folder: Path) -> bool:
    """Return whether the checkpoint is in `folder`.

    For a link, it is enough if either the link itself or the folder it points to is in `folder`.
    """
    parents = {checkpoint.absolute().parent.resolve(), checkpoint.resolve().parent}
    return folder.resolve() in parents


def last_complete_checkpoint(output_dir: str) -> str | None:
    """Return the last complete checkpoint in `output_dir`.

    Warn about later incomplete checkpoints. Collective.
    """
    folder = None
    for checkpoint in find_checkpoints(Path(output_dir)):
        if is_complete(checkpoint):
            folder = str(checkpoint)
            break
        logger.warning("%s is skipped: it was not written to its end.", checkpoint)
    (folder,) = broadcast_object_list([folder])
    return folder


def is_complete(checkpoint: Path) -> bool:
    """Return whether all files of a checkpoint were written completely."""
    return _has_step(checkpoint / TRAINER_STATE_NAME) and are_whole(checkpoint)


def _has_step(path: Path) -> bool:
    """Return whether a `trainer_state.json` can be read and states its step."""
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(state, dict) and isinstance(state.get("global_step"), int)
