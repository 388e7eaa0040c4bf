"""Pushes that are accounted for: one that the user waits for raises [`PushError`], one in the background is logged.

The upload is Transformers' own. It runs some pushes in the background and never checks the result; we do.
"""

import logging
import shlex
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import PushInProgress

from steer_trl.exceptions import CannotContinueError

logger = logging.getLogger(__name__)

NOT_PUSHED = ("_*", f"{PREFIX_CHECKPOINT_DIR}-*")  # as Transformers leaves out
# huggingface_hub 1 talks through httpx, 2 through its successor of another name.
CLIENTS = [import_module(name) for name in ("httpx", "httpx2") if find_spec(name)]
UNREACHED = (*(client.TransportError for client in CLIENTS), ConnectionError)
OF_THE_HUB = (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, *UNREACHED)


class PushError(CannotContinueError):
    """A push to the Hub that did not arrive. Its text states where everything still is, and how to push it."""


class Pushes(TrainerCallback):
    """The pushes of a trainer: those it waits for, inside of [`pushing`], and those in the background."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._watched: list[Future] = []

    def are_running(self) -> bool:
        """Whether a push in the background still reads `output_dir`; Transformers changes nothing there either."""
        return any(not job.done() for job in self._jobs())

    def on_save(self, *_: Any, **__: Any) -> None:
        """Watch what Transformers pushes since it saved a checkpoint."""
        folder = Path(self._output_dir, f"{PREFIX_CHECKPOINT_DIR}-{self._trainer.state.global_step}")
        for job in self._jobs():
            if job not in self._watched:
                self._watch(job, folder, "The training continues. ")
        self._watched = self._jobs()

    @contextmanager
    def making_repository(self) -> Iterator[None]:
        """Turn what goes wrong before the training into a [`PushError`]."""
        try:
            yield
        except OF_THE_HUB as error:
            raise PushError(
                f"push_to_hub=True needs a repository that can be written to, and {self._destination()} cannot: "
                f"{_reason(error)}. Nothing has been trained yet. {_remedy(error)}, or train with push_to_hub=False "
                "and call trainer.push_to_hub() afterwards."
            ) from error

    @contextmanager
    def pushing(self) -> Iterator[None]:
        """Turn what goes wrong with a push into a [`PushError`], with everything saved."""
        trainer = self._trainer
        trainer._finish_current_push()  # it may read the card that is about to be written
        try:
            yield
        except Exception as error:
            cause = (isinstance(error, PushError) and error.__cause__) or error
            if not any(isinstance(one, OF_THE_HUB) for one in _chain(cause)):
                raise
            if trainer.hub_model_id is None:
                # The repository could not be made. The other processes are saving now; with shards, they wait for us.
                trainer.save_model(_internal_call=True)
            raise PushError(self._failure(cause, self._output_dir)) from cause

    def watch(self, pushed: Any) -> Any:
        """Watch what [`~transformers.Trainer.push_to_hub`] has returned, if it is still running in the background."""
        if isinstance(pushed, Future):
            self._watch(pushed, self._output_dir)
            self._trainer.push_in_progress = PushInProgress([pushed])  # type: ignore[arg-type, assignment]  # a list, as in Trainer
        return pushed

    def _watch(self, job: Future, folder: str | Path, what_now: str = "") -> None:
        def log_failure(job: Future) -> None:
            error = None if job.cancelled() else job.exception()
            if error is not None:
                logger.warning("%s%s", what_now, self._failure(error, folder))

        job.add_done_callback(log_failure)

    def _jobs(self) -> list[Future]:
        running = getattr(self._trainer, "push_in_progress", None)
        return list(running.jobs) if running is not None else []

    def _failure(self, error: BaseException, folder: str | Path) -> str:
        args = self._trainer.args
        command = ["hf", "upload", self._repository(), self._output_dir, "."]
        command += [word for pattern in NOT_PUSHED for word in ("--exclude", pattern)]
        command += ["--revision", args.hub_revision] if args.hub_revision else []
        command += ["--private"] if args.hub_private_repo else []
        return (
            f"The push to {self._destination()} failed: {_reason(error)}. Nothing is lost here: all files are in "
            f"{folder}. {_remedy(error)}, and push again with trainer.push_to_hub(), or at any time with: "
            f"{shlex.join(command)}"
        )

    @property
    def _output_dir(self) -> str:
        return cast(str, self._trainer.args.output_dir)  # Transformers fills it in

    def _repository(self) -> str:
        args = self._trainer.args
        return self._trainer.hub_model_id or args.hub_model_id or Path(self._output_dir).absolute().name

    def _destination(self) -> str:
        return f"{self._repository()} on {constants.ENDPOINT}"


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what caused it, outermost first; the Hub's own answer needs no further cause."""
    causes = [error]
    while not isinstance(causes[-1], HfHubHTTPError) and causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    return causes


def _reason(error: BaseException) -> str:
    """One line: what the outermost and the innermost error say."""
    causes = _chain(error)
    texts = [" ".join(str(cause).split()).rstrip(".") or type(cause).__name__ for cause in (causes[0], causes[-1])]
    return ": ".join(dict.fromkeys(texts))


def _remedy(error: BaseException) -> str:
    """What to do about it, as the beginning of a sentence."""
    for cause in _chain(error):
        status = cause.response.status_code if isinstance(cause, HfHubHTTPError) else None
        if status in (401, 403) or isinstance(cause, LocalTokenNotFoundError):
            return "Log in with a token that may write there (hf auth login), or correct hub_model_id"
        if status == 404:
            return "Correct hub_model_id, or log in with a token that may see it (hf auth login)"
        if isinstance(cause, UNREACHED) or (status or 0) >= 500:
            return "Retry once the Hub is reachable (check HF_ENDPOINT and HF_HUB_OFFLINE)"
    return "Correct it"
