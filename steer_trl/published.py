"""What leaves the machine: the card of every checkpoint, and pushes that fail loudly and lose nothing.

The upload is Transformers' own. A push during training runs in the background, and Transformers never looks at how it
ended: it is looked at here, and told in the log. A push that the user waits for raises [`PushError`].
"""

import logging
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

from accelerate.utils import is_peft_model
from huggingface_hub import constants
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer
from trl.trainer.utils import get_comet_experiment_url, get_config_model_id, get_trackio_space_url

from steer_trl.card import Run, datasets_on_hub, draw_entropy, entropy_curve, make_card
from steer_trl.checkpoint import write_whole
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.preflight import is_hub_name
from steer_trl.push_errors import PushError, reason, remedy
from steer_trl.shaping import Shaper, short_name
from steer_trl.validation import listed

logger = logging.getLogger(__name__)

CARD, PICTURE = "README.md", "entropy.png"
NOT_PUSHED = ("_*", f"{PREFIX_CHECKPOINT_DIR}-*")  # as Transformers' push leaves out


class PublishedTrainer(GRPOTrainer):
    """TRL's trainer with a card in every folder it saves, and with pushes that are accounted for."""

    shapers: dict[str, Shaper]
    benchmarks: BenchmarkEvaluation | None = None

    _tag_names = ["trl", "grpo"]
    _is_pushing = False
    _is_saved = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._jobs: list[Future] = []
        super().__init__(*args, **kwargs)
        self.args.seal()
        self._base_model = get_config_model_id(self.model.config) or None
        self._base_is_on_hub = self._base_model is not None and is_hub_name(self._base_model)

    def _set_card_data(self) -> None:
        """Keep what the card says of the methods, before TRL tags the model with it."""
        names = map(short_name, self.shapers)
        self._tag_names = [*self._tag_names, *names]
        self._card_arguments: dict[str, Any] = {}

    # The card.

    def create_model_card(
        self,
        model_name: str | None = None,
        dataset_name: str | list[str] | None = None,
        tags: str | list[str] | None = None,
    ) -> None:
        """Write the model card to `output_dir`. What is given here stays in the cards of later checkpoints.

        Args:
            model_name (`str`, *optional*): name of the model; by default that of its repository or folder.
            dataset_name (`str` or `list[str]`, *optional*): name on the Hub of what it was trained on; by default what
                [`~steer_trl.data.load_math_dataset`] has loaded from there.
            tags (`str` or `list[str]`, *optional*): more tags.
        """
        given = {"model_name": model_name, "dataset_name": dataset_name, "tags": tags}
        self._card_arguments |= {name: value for name, value in given.items() if value}
        self._write_card(Path(self.args.output_dir))
        self._is_saved = True  # TRL writes the card last before it uploads

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model and its card; push them as well if `push_to_hub` is set, as TRL does."""
        super().save_model(output_dir, _internal_call)
        folder = output_dir or self.args.output_dir
        if _internal_call or not self.args.push_to_hub or folder != self.args.output_dir:  # else the push wrote it
            self._write_card(Path(folder))

    def _write_card(self, folder: Path) -> None:
        is_being_pushed = folder == Path(self.args.output_dir) and self._is_being_pushed()
        if not self.is_world_process_zero() or is_being_pushed:
            return
        folder.mkdir(parents=True, exist_ok=True)
        try:
            run = self._run()
            card = make_card(run, has_picture=draw_entropy(entropy_curve(run.log), folder / PICTURE))
            write_whole(folder / CARD, card.save)
        except Exception:  # a card must not cost a checkpoint
            logger.warning("The model card of %s could not be written, all else is.", folder, exc_info=True)

    def _run(self) -> Run:
        given = self._card_arguments
        name = self.args.hub_model_id or Path(self.args.output_dir).absolute().name
        datasets, tags = given.get("dataset_name"), given.get("tags", [])
        return Run(
            args=self.args,
            model_name=given.get("model_name", name.split("/")[-1]),
            repository=self.hub_model_id,
            base_model=self._base_model,
            base_is_on_hub=self._base_is_on_hub,
            is_adapter=is_peft_model(self.model),
            is_chat=getattr(self.processing_class, "chat_template", None) is not None,
            datasets=datasets_on_hub(self.train_dataset) if datasets is None else listed(datasets),
            tags=self._tags(listed(tags)),
            papers=list(dict.fromkeys(shaper.paper for shaper in self.shapers.values() if shaper.paper is not None)),
            rewards=self.reward_func_names,
            log=self.state.log_history,
            step=self._step_of_weights(),
            benchmarks=self.benchmarks,
            program=program(),
            num_processes=self.accelerator.num_processes,
            links=_tracker_links(),
        )

    def _step_of_weights(self) -> int:
        best = self.state.best_global_step if self.args.load_best_model_at_end else None
        return self.state.global_step if self.is_in_train or not best else best

    def _tags(self, given: Iterable[str]) -> list[str]:
        """TRL's tags, the methods', the user's, and those that TRL adds for a place of training or a tracker."""
        tags = ["generated_from_trainer", *self._tag_names, *given]
        if hasattr(self.model.config, "unsloth_version"):
            tags.append("unsloth")
        if "JOB_ID" in os.environ:
            tags.append("hf_jobs")
        trackio = get_trackio_space_url()
        if trackio is not None:
            tags = [*(tag for tag in tags if not tag.startswith("trackio:")), f"trackio:{trackio}"]
        return list(dict.fromkeys(tags))

    # The pushes.

    def init_hf_repo(self, token: str | None = None) -> None:
        """Make the repository on the Hub if it is not there.

        Raises:
            `PushError`: the Hub is not there or refuses; nothing has been trained then.
        """
        try:
            super().init_hf_repo(token)
        except Exception as error:
            if self._is_pushing:
                raise
            raise PushError(
                f"push_to_hub=True is refused: {self._destination()} cannot be written to ({reason(error)}). "
                f"Nothing has been trained yet. {remedy(error)}, or train with push_to_hub=False and call "
                "trainer.push_to_hub() afterwards."
            ) from error

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Save the model and its card to `output_dir` and upload it; arguments as in [`~transformers.Trainer`].

        Raises:
            `PushError`: it did not arrive. Everything is in `output_dir`, and the text says how to push it from there.
                With `blocking=False` it is logged instead.
        """
        self._is_pushing, self._is_saved = True, False
        self._finish_current_push()  # it may read the card that is about to be written
        try:
            pushed = super().push_to_hub(commit_message, blocking, token, revision, **kwargs)
        except Exception as error:
            if self.hub_model_id is None and not self._is_saved:
                # The repository could not be made. The other processes are saving now; with shards, they wait for us.
                self.save_model(_internal_call=True)
            elif not self._is_saved:
                raise  # not the Hub's doing
            raise PushError(self._failure(error, self.args.output_dir)) from error
        finally:
            self._is_pushing = False
        if isinstance(pushed, Future):
            self._jobs.append(pushed)
            pushed.add_done_callback(self._teller(self.args.output_dir))
        return pushed

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        before = self._push_jobs()
        if self.is_world_process_zero() and (self.args.hub_always_push or not self._is_being_pushed()):
            for name in (CARD, PICTURE):
                if Path(checkpoint_folder, name).exists():
                    shutil.copy(Path(checkpoint_folder, name), self.args.output_dir)
        super()._push_from_checkpoint(checkpoint_folder)
        for job in self._push_jobs():
            if job not in before:
                job.add_done_callback(self._teller(checkpoint_folder, "The training goes on. "))

    def _push_jobs(self) -> list[Future]:
        running = getattr(self, "push_in_progress", None)
        return self._jobs + (list(running.jobs) if running is not None else [])

    def _finish_current_push(self) -> None:
        super()._finish_current_push()
        wait(self._jobs)
        self._jobs = []

    def _is_being_pushed(self) -> bool:
        """Whether a push in the background still reads `output_dir`; Transformers changes nothing there either."""
        return any(not job.done() for job in self._push_jobs())

    def _teller(self, folder: str, what_now: str = "") -> Callable[[Future], None]:
        def tell(job: Future) -> None:
            error = None if job.cancelled() else job.exception()
            if error is not None:
                logger.warning("%s%s", what_now, self._failure(error, folder))

        return tell

    def _failure(self, error: BaseException, folder: str) -> str:
        name = self._repository()
        command = ["hf", "upload", name, self.args.output_dir, "."]
        command += [word for pattern in NOT_PUSHED for word in ("--exclude", pattern)]
        command += ["--revision", self.args.hub_revision] if self.args.hub_revision else []
        command += ["--private"] if self.args.hub_private_repo else []
        return (
            f"The push to {self._destination()} failed: {reason(error)}. Nothing is lost here: all files are in "
            f"{folder}. {remedy(error)}, and push again with trainer.push_to_hub(), or at any time with: "
            f"{shlex.join(command)}"
        )

    def _repository(self) -> str:
        return self.hub_model_id or self.args.hub_model_id or Path(self.args.output_dir).absolute().name

    def _destination(self) -> str:
        return f"{self._repository()} on {constants.ENDPOINT}"


def _tracker_links() -> dict[str, str]:
    """Pages of the run on the trackers that it reports to."""
    wandb = sys.modules.get("wandb")  # not imported here for its own sake
    run = getattr(wandb, "run", None)
    links = {
        "Weights & Biases": getattr(run, "url", None),
        "Trackio": get_trackio_space_url(),
        "Comet": get_comet_experiment_url(),
    }
    # Without what follows the `?`: that of an anonymous run holds its key.
    return {name: url.partition("?")[0] for name, url in links.items() if url}


def program() -> str | None:
    """The script or module that this process runs, without its arguments: these may hold anything.

    `None` in a notebook or an interactive session.
    """
    module = sys.modules["__main__"].__spec__
    name = f"python -m {module.name}" if module is not None else Path(sys.argv[0]).name
    return None if "ipykernel" in sys.modules or name in ("", "-c") else name
