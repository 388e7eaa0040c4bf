"""Turns a failed push into one error that says where the files are and how to push them later.

Transformers does the upload. During training it pushes in the background, and does not check the results.
"""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import constants
from transformers import Trainer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from steer_trl.report.hub_errors import is_from_hub
from steer_trl.support.exceptions import CannotContinueError

NOT_PUSHED = ("_*", f"{PREFIX_CHECKPOINT_DIR}-*")
"""Patterns of files that the suggested upload command excludes, because Transformers does not push them either."""


class PushError(CannotContinueError):
    """The error for a failed push to the Hub. Its text states where the files are, and how to push them."""


@contextmanager
def catch_push_errors(trainer: Trainer) -> Iterator[None]:
    """Raise a [`PushError`] if a push inside the `with` block fails, after all files have been saved."""
    # Wait, because a push in the background may still read the card that is about to be written.
    trainer._finish_current_push()
    try:
        yield
    except Exception as error:
        if not is_from_hub(error):
            raise
        if trainer.hub_model_id is None:
            # The repository could not be created, but the other processes are already saving the model. If its weights
            # are sharded, the other processes wait until this process also saves.
            trainer.save_model(_internal_call=True)
        raise PushError(_describe_failure(trainer, error)) from error


def _describe_failure(trainer: Trainer, error: Exception) -> str:
    args = trainer.args
    folder = str(args.output_dir)
    repository = trainer.hub_model_id or args.hub_model_id or Path(folder).absolute().name
    command = ["hf", "upload", repository, folder, "."]
    for pattern in NOT_PUSHED:
        command += ["--exclude", pattern]
    if args.hub_revision:
        command += ["--revision", args.hub_revision]
    reason = " ".join(str(error).split()).rstrip(".")
    return (
        f"The push to {repository} on {constants.ENDPOINT} failed: {reason}. All files are in {folder}. When the Hub "
        "can be reached and lets you write (hf auth login), push with trainer.push_to_hub(), or at any time with: "
        f"{shlex.join(command)}"
    )
