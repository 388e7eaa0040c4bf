"""Reads the names of settings from the source files that define them.

Importing TRL's configuration takes ten seconds, but reading its source takes only a tenth of a second. A misspelt
setting is therefore reported before TRL is imported.
"""

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from steer_trl.options.former_names import FORMER_NAMES, former_complaints
from steer_trl.support.validation import did_you_mean

FILES = {
    "train": (
        "transformers/training_args.py",
        "trl/trainer/*_config.py",
        "steer_trl/config.py",
        "steer_trl/options/*.py",
        "steer_trl/cli/arguments.py",
    ),
    "eval": ("steer_trl/cli/eval_arguments.py",),
}
FIELD = re.compile(r"^    (\w+): ", re.MULTILINE)
"""Matches a field of a dataclass in its source code."""
FLAGS = {"config", "accelerate_config", "num_processes"}
"""Flags of the command line that are not fields of a configuration."""
ALIASES = {
    "batch_size": ("per_device_train_batch_size",),
    "data": ("dataset_name", "benchmarks"),
    "dataset": ("dataset_name", "benchmarks"),
    "entropy": ("hold_entropy",),
    "epochs": ("num_train_epochs",),
    "group_size": ("num_generations",),
    "kl_coef": ("beta",),
    "lora": ("use_peft",),
    "lr": ("learning_rate",),
    "max_length": ("max_completion_length", "max_tokens"),
    "max_new_tokens": ("max_completion_length", "max_tokens"),
    "method": ("advantage_shaping",),
    "model": ("model_name_or_path",),
    "model_name": ("model_name_or_path",),
    "output": ("output_dir",),
    "resume": ("resume_from_checkpoint",),
    "reward": ("reward_funcs",),
    "samples": ("num_generations", "benchmarks"),
    "steps": ("max_steps",),
    "train_batch_size": ("per_device_train_batch_size",),
    "vllm": ("use_vllm",),
}
"""Maps names that other trainers use to the settings that may be meant.

If a user gives such a name, the error suggests the first of these settings that the command has.
"""


def read_names(command: str) -> set[str]:
    """Return the names of a command's settings, without importing the modules that define them."""
    names = set(FLAGS)
    for pattern in FILES[command]:
        package, _, file_pattern = pattern.partition("/")
        spec = find_spec(package)
        folders = spec.submodule_search_locations if spec else None
        for folder in folders or ():
            for path in Path(folder).glob(file_pattern):
                names.update(FIELD.findall(path.read_text(encoding="utf-8")))
    return names


def misspelt_complaints(command: str, typed: Iterable[str]) -> list[str]:
    """Return complaints about names in `typed` that are not settings but resemble one.

    A name that resembles no setting is left to the parser, because a later version of TRL may define it in a different
    file.
    """
    settings = read_names(command)
    names = list(typed)
    complaints = former_complaints(names) if command == "train" else []
    for name in names:
        if name.removeprefix("no_") in settings or name in FORMER_NAMES:
            continue
        synonyms = [setting for setting in ALIASES.get(name, ()) if setting in settings]
        hint = f" Did you mean --{synonyms[0]}?" if synonyms else did_you_mean(name, settings)
        if hint:
            complaints.append(f"unknown setting {name!r}.{hint} --help-all lists the settings.")
    return complaints
