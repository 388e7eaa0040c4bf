"""Writes a model card to every saved folder.

This module collects the facts from the trainer, and `report/card.py` makes the card from them.
"""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from accelerate.utils import is_peft_model
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from transformers import TrainerState
from trl.trainer.utils import get_config_model_id

from steer_trl.data.sources import FILE_BUILDERS
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.monitoring.run_log import describe_run
from steer_trl.report.card import CardFacts, make_card
from steer_trl.report.hub_results import CARD, find_hub_datasets
from steer_trl.shaping import Shaper
from steer_trl.support.system import write_whole
from steer_trl.support.validation import as_tuple
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)

MARKER = {"model": "config.json", "dataset": "README.md"}
"""A file of a repository of each type that the cache has if it was loaded from the Hub."""
FILES = (*FILE_BUILDERS, ".arrow", ".yaml", ".txt")
"""How the names of files with data end."""
NAMES = {
    **dict.fromkeys(("dataset_name", "eval_benchmarks", "eval_samplings"), "dataset"),
    **dict.fromkeys(("model_name_or_path", "reward_funcs", "tools", "eval_judge"), "model"),
}
"""The settings of `steer-trl train` that are names or local paths, with the type of repository that they name."""


class ModelCards:
    """Writes the model cards of a run.

    Values given to `create_model_card` are kept for later cards. `recipe` holds the settings of `steer-trl train` that
    the trainer's `args` lack.
    """

    def __init__(
        self,
        trainer: GRPOTrainer,
        shapers: Mapping[str, Shaper],
        benchmarks: BenchmarkEvaluation | None,
        tags: Sequence[str],
    ) -> None:
        self._trainer = trainer
        self._shapers = shapers
        self._benchmarks = benchmarks
        self._tags = tags
        self._card_fields: dict[str, Any] = {}
        self.recipe: dict[str, Any] = {}

    def keep(self, **card_fields: Any) -> None:
        """Keep arguments of [`~trl.GRPOTrainer.create_model_card`] for all later cards.

        TRL and Transformers give a default name with each checkpoint and push. It does not replace one that is kept.
        """
        args = self._trainer.args
        defaults = {Path(name).name for name in (args.output_dir, args.hub_model_id) if name}
        if "model_name" in self._card_fields and card_fields.get("model_name") in defaults:
            del card_fields["model_name"]
        self._card_fields |= {name: value for name, value in card_fields.items() if value}

    def describe(self, args: Any, state: TrainerState, model: Any = None) -> dict[str, Any]:
        """Return the contents of `run.json`.

        These are the fields of [`describe_run`], the methods, the base model and the recipe.
        """
        usual = describe_run(args, state, model)
        return usual | {
            "methods": list(args.shaping_names),
            "model": self.base_model[0],
            "settings": self.recipe | usual["settings"],
        }

    def write(self, folder: Path) -> None:
        """Write the card to `folder`, unless a push is reading that folder."""
        trainer = self._trainer
        if not trainer.is_world_process_zero():
            return
        # Transformers sets this attribute if it pushes checkpoints.
        push = getattr(trainer, "push_in_progress", None)
        is_read = folder == Path(trainer.args.output_dir) and push is not None and not push.is_done()
        if is_read and not trainer.args.hub_always_push:
            return
        folder.mkdir(parents=True, exist_ok=True)
        try:
            has_report = (folder / "report.html").exists()
            write_whole(folder / CARD, make_card(self._collect_facts(), has_report).save)
        # An error here would stop the checkpoint, which matters more than its card.
        except Exception:
            logger.warning("The model card of %s could not be written.", folder, exc_info=True)

    def _collect_facts(self) -> CardFacts:
        trainer = self._trainer
        args = trainer.args
        base_model, is_on_hub = self.base_model
        name = args.hub_model_id or Path(args.output_dir).absolute().name
        tags = ["generated_from_trainer", *self._tags, *as_tuple(self._card_fields.get("tags", ()))]
        return CardFacts(
            args=args,
            name=self._card_fields.get("model_name") or name.split("/")[-1],
            tags=list(dict.fromkeys(tags)),
            repository=trainer.hub_model_id,
            base_model=base_model,
            base_is_on_hub=is_on_hub,
            is_adapter=is_peft_model(trainer.model),
            is_chat=getattr(trainer.processing_class, "chat_template", None) is not None,
            datasets=self._name_datasets(),
            papers=list(dict.fromkeys(shaper.paper for shaper in self._shapers.values() if shaper.paper is not None)),
            rewards=trainer.reward_func_names,
            log=trainer.state.log_history,
            step=self._step_of_weights(),
            benchmarks=self._benchmarks,
            recipe={name: _hide_paths(name, value) for name, value in self.recipe.items()},
        )

    @cached_property
    def base_model(self) -> tuple[str | None, bool]:
        """The name or folder of the model that the run started from, and whether it is on the Hub."""
        name = get_config_model_id(self._trainer.model.config) or None
        return name, name is not None and _is_on_hub(name)

    def _name_datasets(self) -> list[str]:
        """Return the names of the training data sets on the Hub. A file or a folder has no page there."""
        given = self._card_fields.get("dataset_name")
        if given is None:
            return find_hub_datasets(self._trainer.train_dataset)
        return [str(name) for name in as_tuple(given) if _is_on_hub(str(name), "dataset")]

    def _step_of_weights(self) -> int:
        """Return the step of the weights that are saved: that of the best checkpoint if it has been loaded."""
        state = self._trainer.state
        # The best evaluation may have no checkpoint, so its step says nothing.
        best = state.best_model_checkpoint if self._trainer.args.load_best_model_at_end else None
        return state.global_step if self._trainer.is_in_train or not best else int(best.rpartition("-")[2])


def _hide_paths(setting: str, value: Any) -> Any:
    """Return the value of a setting for the card: of a local path, only the name of the file or folder."""
    if setting not in NAMES:
        return value
    if isinstance(value, (list, tuple)):
        return [_hide_paths(setting, one) for one in value]
    if not isinstance(value, str):
        return value
    # A benchmark may be NAME=FILE@SAMPLES.
    name, equals, path = value.rpartition("=")
    is_path = re.search(r"[/\\]", path) and not _is_on_hub(path.partition("@")[0], NAMES[setting])
    return name + equals + re.split(r"[/\\]", path.rstrip("/\\"))[-1] if is_path else value


def _is_on_hub(name: str, repo_type: str = "model") -> bool:
    """Return whether `name` is a repository on the Hub, rather than a path that is or was on this or another machine.

    `repo_type` is `"model"` or `"dataset"`.
    """
    # A card with a base model that cannot be on the Hub would be refused there.
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    if os.path.exists(name) or name.endswith(FILES):
        return False
    # `runs/start` was a folder if there are runs here, unless a repository of that name was loaded from the Hub.
    cached = try_to_load_from_cache(name, MARKER[repo_type], repo_type=repo_type)
    return not os.path.isdir(os.path.dirname(name)) or isinstance(cached, str)
