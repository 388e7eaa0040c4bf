"""A push that fails ends in one error: where everything is, and the command that pushes it.

The upload is Transformers' own. Those during the training run in the background, and it never looks at their results.
"""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import constants
from transformers import Trainer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from steer_trl.exceptions import CannotContinueError

NOT_PUSHED = ("_*", f"{PREFIX_CHECKPOINT_DIR}-*")  # as Transformers leaves out
OF_THE_HUB = {"huggingface_hub", "httpx", "httpx2"}
"""Packages whose errors a push raises; huggingface_hub 1 talks through httpx, 2 through its successor."""


class PushError(CannotContinueError):
    """A push to the Hub that did not arrive. Its text states where everything is, and how to push it."""


@contextmanager
def pushing(trainer: Trainer) -> Iterator[None]:
    """Turn what goes wrong with a push into a [`PushError`], with everything saved."""
    trainer._finish_current_push()  # it may read the card that is about to be written
    try:
        yield
    except Exception as error:
        if not _is_of_the_hub(error):
            raise
        if trainer.hub_model_id is None:
            # The repository could not be made. The other processes are saving now; with shards, they wait for us.
            trainer.save_model(_internal_call=True)
        raise PushError(_text(trainer, error)) from error


def _is_of_the_hub(error: BaseException | None) -> bool:
    return error is not None and (
        type(error).__module__.partition(".")[0] in OF_THE_HUB or _is_of_the_hub(error.__cause__)
    )


def _text(trainer: Trainer, error: Exception) -> str:
    args = trainer.args
    folder = str(args.output_dir)
    repository = trainer.hub_model_id or args.hub_model_id or Path(folder).absolute().name
    command = ["hf", "upload", repository, folder, "."]
    command += [word for pattern in NOT_PUSHED for word in ("--exclude", pattern)]
    command += ["--revision", args.hub_revision] if args.hub_revision else []
    reason = " ".join(str(error).split()).rstrip(".")
    return (
        f"The push to {repository} on {constants.ENDPOINT} failed: {reason}. Nothing is lost: all files are in "
        f"{folder}. Once the Hub is reachable and lets you write (hf auth login), push with trainer.push_to_hub(), or "
        f"at any time with: {shlex.join(command)}"
    )
