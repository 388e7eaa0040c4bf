"""The settings, data and rewards that a run was made with, so that a resumed run can report changes."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from datasets import Dataset
from transformers import TrainingArguments
from trl import GRPOConfig

from steer_trl.shaping import find_shaper
from steer_trl.support.redact import select_public
from steer_trl.trainer.trl import GRPOTrainer

SETTINGS: tuple[str, ...] = (
    *(
        "advantage_shaping",
        "hold_entropy",
        "hold_entropy_by",
        "hold_entropy_unit",
        "hold_entropy_until",
        "hold_entropy_final",
    ),
    *("hold_entropy_decay_start", "shaping_scope", "shaping_options", "correct_threshold"),
    *("dynamic_sampling", "dynamic_sampling_factor", "dynamic_sampling_max_attempts", "dynamic_sampling_surplus"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "seed", "data_seed"),
)
"""The settings of this package and of Transformers that are compared, besides those of the methods in use."""
OF_OPTIMIZER: tuple[str, ...] = ("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon")
"""The settings that an optimizer saves with its state, so that a resumed run keeps those of its checkpoint."""
NOT_TRAINED_ON: tuple[str, ...] = (
    "vllm_",
    "log_",
    "ds3_",
    "transformers_",
    "use_transformers",
    "num_completions_to_print",
)
NOT_TRAINED_ON += ("num_generations_eval", "cache_implementation", "trust_remote_code", "pad_to_multiple_of")
"""The beginnings of the names of TRL's settings that do not change what is trained."""
CORRECTIONS = "vllm_importance_sampling"
"""The beginning of the names of settings of vLLM that change what is trained."""
SAMPLED = 16
"""The number of prompts by which data sets are compared."""


def describe(trainer: GRPOTrainer) -> dict[str, Any]:
    """Return what decides the training of a run, as plain values: settings, rewards, data and processes."""
    args = trainer.args
    of_methods = [setting for name in args.shaping_names for setting in find_shaper(name).settings()]
    settings = {name: getattr(args, name) for name in (*SETTINGS, *OF_OPTIMIZER, *of_methods, *settings_of_trl())}
    settings["advantage_shaping"] = list(args.shaping_names)
    # A checkpoint may be pushed to the Hub, so a text that may hold a secret is only recognised, not written.
    public = select_public(settings)
    private = [name for name in settings if public.get(name) != settings[name]]
    settings |= {name: _digest(settings[name]) for name in private}
    settings |= {"reward functions": list(trainer.reward_func_names), "correct_reward": args.correct_reward}
    data = trainer.train_dataset
    stored = data if isinstance(data, Dataset) else None
    settings["rows of train_dataset"] = None if stored is None else len(stored)
    settings["prompts of train_dataset"] = None if stored is None else _digest_prompts(stored)
    settings["processes"] = trainer.accelerator.num_processes
    # Tuples become lists, as in the checkpoint.
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return plain


def settings_of_trl() -> list[str]:
    """Return the names of TRL's settings that change what is trained."""
    of_transformers = {field.name for field in fields(TrainingArguments)}
    names = [field.name for field in fields(GRPOConfig) if field.name not in of_transformers]
    return [name for name in names if name.startswith(CORRECTIONS) or not name.startswith(NOT_TRAINED_ON)]


def find_changed(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the names of the values that differ.

    A value that only one of the two has belongs to another method or version, and is not compared.
    """
    return [name for name in now if name in before and before[name] != now[name]]


def _digest_prompts(data: Dataset) -> str | None:
    """Return a short digest of some prompts, which is the same in every process."""
    if "prompt" not in data.column_names or not len(data):
        return None
    places = range(0, len(data), max(len(data) // SAMPLED, 1))
    prompts = data.select_columns("prompt").with_format(None).select(places)["prompt"]
    # A picture in a prompt is not compared.
    return _digest(list(prompts), default=lambda _: None)


def _without_address(value: Any) -> str:
    """Return an object's text, which is the same in another process."""
    return re.sub(" at 0x[0-9a-f]+", "", str(value))


def _digest(value: Any, default: Callable[[Any], str | None] = _without_address) -> str:
    text = json.dumps(value, default=default, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
