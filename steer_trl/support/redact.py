"""Selects the settings of a run that may leave this machine.

Numbers and booleans may leave. A string may leave only if its setting is on the allow-list below, because any other
string may hold a secret, such as a token, a URL with a password or a header.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch

# The strings of these settings come from fixed sets, or are names and folders that are not secret.
_TEXTS = {
    *(
        "advantage_shaping",
        "hold_entropy_by",
        "model_license",
        "loss_type",
        "scale_rewards",
        "importance_sampling_level",
        "vllm_mode",
    ),
    *("multi_objective_aggregation", "pad_to_multiple_of", "cache_implementation", "vllm_importance_sampling_mode"),
    *("vllm_model_impl", "output_dir", "run_name", "project", "report_to", "logging_dir", "log_level"),
    *("log_level_replica", "logging_strategy", "save_strategy", "eval_strategy", "metric_for_best_model", "optim"),
    *("resume_from_checkpoint", "include_num_input_tokens_seen", "lr_scheduler_type", "optim_target_modules"),
    *("train_sampling_strategy", "torch_compile_backend", "torch_compile_mode", "ddp_backend", "fsdp", "debug"),
    *("hub_model_id", "hub_strategy", "hub_revision"),
}
_TEXTS_INSIDE = {"attn_implementation", "dtype", "torch_dtype", "revision", "quant_method", "bnb_4bit_quant_type"}
_CHOICES: set[str] = set()
_WITHHELD = object()


def allow_texts(names: Iterable[str]) -> None:
    """Add the settings in `names` to the allow-list.

    All strings that they accept must come from a fixed set.
    """
    _TEXTS.update(names)


def allow_choices(choices: Iterable[str]) -> None:
    """Add strings to those that may leave in `shaping_options`. They must come from the declaration of an option."""
    _CHOICES.update(choices)


def select_public(
    settings: Mapping[str, Any], texts: Collection[str] = _TEXTS, choices: Collection[str] = ()
) -> dict[str, Any]:
    """Return the `settings` that may leave this machine, as numbers, strings, lists and dictionaries.

    A string may leave if `texts` contains the name of its setting, or if it is one of `choices`. The same holds for
    the strings in a list. A dictionary inside a setting has its own allow-list; in `shaping_options`, the choices that
    methods declare may leave. A list or dictionary is left out if it has no item that may leave.
    """
    selected = {}
    for name, value in settings.items():
        declared = _CHOICES if name == "shaping_options" else choices
        selected[str(name)] = _select_value(value, name in texts, declared)
    return {name: value for name, value in selected.items() if value is not _WITHHELD}


def _select_value(value: Any, may_be_text: bool, choices: Collection[str]) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    # The values of an Enum are a fixed set, so they cannot hold a secret.
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value if may_be_text or value in choices else _WITHHELD
    if isinstance(value, Mapping):
        return select_public(value, _TEXTS_INSIDE, choices) or _WITHHELD
    if isinstance(value, (list, tuple)):
        return [
            item for item in (_select_value(item, may_be_text, choices) for item in value) if item is not _WITHHELD
        ] or _WITHHELD
    return _WITHHELD
