"""A vLLM server that is gone: one sentence that names it and says where to continue, instead of a traceback.

TRL's client asks again for about a minute. What it raises then, of the library `requests`, knows whom it asked, so a
reward function's own server is not mistaken for it. Only the main process asks; the launcher ends the others.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from steer_trl.exceptions import CannotContinueError
from steer_trl.trainer.trl import GRPOTrainer, address_of_server


@contextmanager
def naming_server(trainer: GRPOTrainer) -> Iterator[None]:
    """Raise what the server's silence ends as an error that states where to continue.

    Raises:
        `RuntimeError`: the server does not answer.
    """
    try:
        yield
    except OSError as error:  # as all of requests' are
        server, asked = address_of_server(trainer), getattr(getattr(error, "request", None), "url", None) or ""
        if server is None or not asked.startswith(server):
            raise
        raise CannotContinueError(
            f"The vLLM server at {server} does not answer any more ({type(error).__name__} of {asked}). Look at its "
            "output, start it again, and train with resume_from_checkpoint='auto': the training continues after the "
            f"last checkpoint in {trainer.args.output_dir}, or begins at step 0 where there is none."
        ) from error
