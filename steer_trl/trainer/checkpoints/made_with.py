"""What a run was made with, so that a resumed run can report what has changed."""

import hashlib
import json
from typing import Any

from datasets import Dataset

from steer_trl.shaping import find_shaper
from steer_trl.trainer.trl import GRPOTrainer

SETTINGS = (
    *("advantage_shaping", "hold_entropy", "hold_entropy_unit", "hold_entropy_until", "hold_entropy_final"),
    *("hold_entropy_decay_start", "shaping_scope", "dynamic_sampling", "correct_reward"),
)
SAMPLED = 16
"""The number of prompts by which data sets are compared."""


def describe(trainer: GRPOTrainer) -> dict[str, Any]:
    """Return the method, the level, the data and the number of processes of a run, as plain values."""
    args = trainer.args
    of_methods = [setting for name in args.shaping_names for setting in find_shaper(name).settings()]
    settings = {name: getattr(args, name) for name in (*SETTINGS, *of_methods)}
    settings["advantage_shaping"] = list(args.shaping_names)
    data = trainer.train_dataset
    if isinstance(data, Dataset):
        settings |= {"rows of train_dataset": len(data), "prompts of train_dataset": _digest(data)}
    settings["processes"] = trainer.accelerator.num_processes
    # Tuples become lists, as in the checkpoint.
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return plain


def find_changed(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return a text for each value that differs, also if it was or is not set."""
    names = [name for name in before | now if before.get(name) != now.get(name)]
    return [f"{name} from {before.get(name)!r} to {now.get(name)!r}" for name in names]


def _digest(data: Dataset) -> str | None:
    """Return a short digest of some prompts, which is the same in every process."""
    if "prompt" not in data.column_names or not len(data):
        return None
    places = range(0, len(data), max(len(data) // SAMPLED, 1))
    prompts = data.select_columns("prompt").with_format(None).select(places)["prompt"]
    # A picture in a prompt is not compared.
    text = json.dumps(list(prompts), default=lambda _: None)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
