"""Writes a model card to every saved folder.

This module collects the facts from the trainer, and `report/card.py` makes the card from them.
"""

import logging
import os
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

from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.monitoring.run_log import describe_run
from steer_trl.report.card import CardFacts, make_card
from steer_trl.report.hub_results import CARD, find_hub_datasets
from steer_trl.shaping import Shaper
from steer_trl.support.system import write_whole
from steer_trl.support.validation import as_tuple
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)


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
        """Keep arguments of [`~trl.GRPOTrainer.create_model_card`] for all later cards."""
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
        datasets = self._card_fields.get("dataset_name")
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
            datasets=find_hub_datasets(trainer.train_dataset) if datasets is None else as_tuple(datasets),
            papers=list(dict.fromkeys(shaper.paper for shaper in self._shapers.values() if shaper.paper is not None)),
            rewards=trainer.reward_func_names,
            log=trainer.state.log_history,
            step=self._step_of_weights(),
            benchmarks=self._benchmarks,
            recipe=self.recipe,
        )

    @cached_property
    def base_model(self) -> tuple[str | None, bool]:
        """The name or folder of the model that the run started from, and whether it is on the Hub."""
        name = get_config_model_id(self._trainer.model.config) or None
        return name, name is not None and _is_on_hub(name)

    def _step_of_weights(self) -> int:
        state = self._trainer.state
        best = state.best_global_step if self._trainer.args.load_best_model_at_end else None
        return state.global_step if self._trainer.is_in_train or not best else best


def _is_on_hub(name: str) -> bool:
    """Return whether `name` is a model on the Hub, rather than a folder that is or was on this or another machine."""
    # A card with a base model that cannot be on the Hub would be refused there.
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    if os.path.isdir(name):
        return False
    # `runs/start` was a folder if there are runs here, unless a model of that name was loaded from the Hub.
    return not os.path.isdir(os.path.dirname(name)) or isinstance(try_to_load_from_cache(name, "config.json"), str)
