"""What can be found wrong with a trainer's arguments before a model is loaded."""

import inspect
import os
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id
from safetensors import SafetensorError, safe_open
from torch import nn
from trl.trainer.utils import get_callable_name, get_config_model_id

from steer_trl.config import SteerGRPOConfig
from steer_trl.exceptions import InvalidTypeError, NotThereError
from steer_trl.rewards import MathReward
from steer_trl.trainer.checks.prompts import prompt_complaints
from steer_trl.validation import refuse

# What TRL passes to every reward function besides the columns of the data set, and where there are environments.
ALWAYS = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}
CONFIGS = ("config.json", "adapter_config.json")
REWARD_ARGUMENTS = ALWAYS | {"environments"}


def check_trainer_arguments(arguments: dict[str, Any]) -> None:
    """Refuse the bound arguments of a [`~trl.GRPOTrainer`] that cannot work; see [`~steer_trl.SteerGRPOTrainer`]."""
    args = arguments.get("args")
    if args is not None and not isinstance(args, SteerGRPOConfig):
        raise InvalidTypeError(
            f"args must be a SteerGRPOConfig, which names the method, got a {type(args).__name__}. It takes "
            "every argument of GRPOConfig."
        )
    check_model_path(arguments["model"])
    revision = ((args and args.model_init_kwargs) or {}).get("revision")
    if args is not None and args.dynamic_sampling != "none":
        refuse(sampling_complaints(arguments, args), "SteerGRPOTrainer")
    complaints = _reward_complaints(arguments.get("reward_funcs"))
    if arguments.get("environment_factory") is not None or arguments.get("rollout_func") is not None:
        refuse(complaints or model_complaints("model", arguments["model"], revision), "SteerGRPOTrainer")
        return  # these may bring prompts and columns of their own
    complaints += _dataset_complaints("train_dataset", arguments.get("train_dataset"), arguments.get("reward_funcs"))
    complaints += _size_complaints(arguments.get("train_dataset"), args)
    eval_dataset = arguments.get("eval_dataset")
    named = eval_dataset if isinstance(eval_dataset, dict) else {"": eval_dataset}
    for name, dataset in named.items():
        label = f"eval_dataset[{name!r}]" if name else "eval_dataset"
        complaints += _dataset_complaints(label, dataset, arguments.get("reward_funcs"))
    refuse(complaints or model_complaints("model", arguments["model"], revision), "SteerGRPOTrainer")
    refuse(prompt_complaints(arguments, args), "SteerGRPOTrainer")


def model_complaints(field: str, model: Any, revision: str | None = None) -> list[str]:
    """Complain about a model whose files are damaged, or which is neither here nor on the Hub, before it is loaded.

    The Hub is asked once, and only for a model that is not in its cache: loading would ask it for a minute.
    """
    if not isinstance(model, str):
        return []
    if os.path.isdir(model):
        return [complaint for path in sorted(Path(model).glob("*.safetensors")) for complaint in _damage(field, path)]
    if any(isinstance(try_to_load_from_cache(model, name, revision=revision), str) for name in CONFIGS):
        return []
    try:
        HfApi().model_info(model, revision=revision, timeout=20)
    except GatedRepoError:
        return [f"{field}={model!r} is a gated model: ask for access on its page, then log in with hf auth login."]
    except RevisionNotFoundError:
        return [f"{field}={model!r}: the Hub has no revision {revision!r} of it. Correct it, or leave it unset."]
    except RepositoryNotFoundError:
        return [
            f"{field}={model!r}: there is no such folder here, and no such model on the Hub, or it is private. Give "
            "the folder of a saved model, or correct the name; for a private model log in with hf auth login."
        ]
    except Exception as error:  # there is no network, no answer, or none allowed: each is an error of its own kind
        reason = " ".join(str(error).split()).rstrip(".")
        return [
            f"{field}={model!r}: there is no such folder here, and the Hub, which may have it, cannot be reached: "
            f"{reason}. Give the folder of a saved model, or connect (HF_HUB_OFFLINE must not be set)."
        ]
    return []


def _damage(field: str, path: Path) -> list[str]:
    try:
        with safe_open(path, "pt"):
            return []
    except (OSError, SafetensorError) as error:
        return [
            f"{field}={str(path.parent)!r} cannot be loaded: {path.name} is damaged ({error}). Save, copy or download "
            "it again."
        ]


def sampling_complaints(arguments: dict[str, Any], args: SteerGRPOConfig) -> list[str]:
    """Say what dynamic sampling cannot work with among the bound arguments of a [`~trl.GRPOTrainer`]."""
    names = [_reward_name(function) for function in _as_list(arguments.get("reward_funcs"))]
    field, wanted, complaints = "dynamic_sampling_reward", args.dynamic_sampling_reward, []
    if wanted is None and len(names) > 1:
        complaints.append(
            f"{field} must be set with several reward functions: which one decides whether a completion is correct? "
            f"Use one of {', '.join(map(repr, names))}."
        )
    elif wanted is not None and names.count(wanted) != 1:
        complaints.append(
            f"{field}={wanted!r} must be the name of exactly one reward function, and their names are {names}."
        )
    if args.dynamic_sampling == "resample" and isinstance(arguments.get("train_dataset"), IterableDataset):
        complaints.append(
            "dynamic_sampling='resample' cannot be combined with a streamed train_dataset: it reads rows by their "
            "number, so that a resumed run can continue at the same one. Load the data set, or use 'mask'."
        )
    if args.dynamic_sampling == "resample" and arguments.get("environment_factory") is not None:
        complaints.append(
            "dynamic_sampling='resample' cannot be combined with environment_factory: the state of an environment "
            "ends with its attempt, and chosen completions would be shown environments of others. Use 'mask'."
        )
    return complaints


def check_model_path(model: Any) -> None:
    """Raise `FileNotFoundError` if `model` is a string that is neither a folder nor a possible Hub name.

    A name such as `runs/model` could be either. Where a folder `runs` lies here and the Hub's cache has no such model,
    it is taken for a path.
    """
    if not isinstance(model, str) or os.path.isdir(model):
        return
    try:
        validate_repo_id(model)
    except HFValidationError as error:
        raise NotThereError(
            "model must be the folder of a saved model or a name on the Hub such as 'Qwen/Qwen2.5-Math-1.5B', got "
            f"{model!r}: there is no such folder, and it cannot be a name on the Hub."
        ) from error
    parent = os.path.dirname(model)
    if parent and os.path.isdir(parent) and try_to_load_from_cache(model, "config.json") is None:
        raise NotThereError(
            f"model={model!r}: there is a folder {parent!r} here, but no such folder in it. Give the "
            f"folder of a saved model; if the Hub's {model!r} is meant, download it first: hf download {model}"
        )


def is_hub_name(model: str) -> bool:
    """Whether `model` names a model on the Hub rather than a folder of this machine."""
    try:
        check_model_path(model)
    except FileNotFoundError:
        return False
    return not os.path.isdir(model)


def _dataset_complaints(label: str, dataset: Any, reward_funcs: Any) -> list[str]:
    if isinstance(dataset, Dataset) and len(dataset) == 0:
        return [f"{label} has no rows. Check the file, the split and any filter."]
    # A streamed data set may not know its columns before it is streamed; TRL judges it as it comes.
    if not isinstance(dataset, (Dataset, IterableDataset)) or dataset.column_names is None:
        return []
    columns = set(dataset.column_names)
    needed = {"prompt": "the trainer"} | _columns_of_rewards(reward_funcs)
    missing = [
        f"{label}: {who} needs a column {column!r}, and the columns are {sorted(columns)}. Add it, or "
        "rename the column that holds it."
        for column, who in needed.items()
        if column not in columns
    ]
    return missing or _gold_complaints(label, dataset, reward_funcs)


def _size_complaints(dataset: Any, args: SteerGRPOConfig | None) -> list[str]:
    """TRL drops a rollout that it cannot fill, and would end without a step and without an error."""
    if args is None or not isinstance(dataset, Dataset) or not dataset:
        return []
    prompts = args.groups_per_rollout
    if len(dataset) >= prompts:
        return []
    return [
        f"train_dataset must have >= {prompts} rows, got {len(dataset)}: a rollout takes {prompts} different prompts "
        f"(generation_batch_size={args.generation_batch_size} over num_generations={args.num_generations}). Lower "
        "per_device_train_batch_size or steps_per_generation, or add rows."
    ]


def _gold_complaints(label: str, dataset: Dataset | IterableDataset, reward_funcs: Any) -> list[str]:
    """Find the gold answers that cannot be scored now, rather than hours into the training."""
    rewards = [function for function in _as_list(reward_funcs) if isinstance(function, MathReward)]
    if not rewards or not isinstance(dataset, Dataset):
        return []
    bad = rewards[0].unreadable(gold for gold in dataset["solution"] if gold is not None)  # None: another task's row
    if not bad:
        return []
    return [
        f"{label}: {len(bad)} of its solutions cannot be scored ({', '.join(sorted(map(repr, bad))[:3])}). "
        "Remove their rows; load_math_dataset does."
    ]


def _reward_complaints(reward_funcs: Any) -> list[str]:
    """Say which reward functions TRL could not call, and that `"math"` is a name for the command line."""
    complaints = []
    for function in _as_list(reward_funcs):
        if function == "math":
            complaints.append(
                "reward_funcs='math' must be a function or a reward model: 'math' is a name for steer-trl train only. "
                "Use steer_trl.rewards.MathReward()."
            )
        parameters = _parameters(function)
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        if parameters and not takes_all and not {parameter.name for parameter in parameters} >= ALWAYS:
            complaints.append(
                f"the reward function {_reward_name(function)} must accept **kwargs: TRL hands it "
                f"{', '.join(sorted(ALWAYS))} and every column of the data set, by name. Add it."
            )
    return complaints


def _parameters(function: Any) -> list[inspect.Parameter]:
    """What a reward function takes; nothing of a model, or of a compiled function that cannot say it."""
    if not callable(function) or isinstance(function, nn.Module):
        return []
    try:
        # Not of what a decorator has wrapped: TRL calls the wrapper.
        return list(inspect.signature(function, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):
        return []


def _reward_name(function: Any) -> str:
    """The name that TRL will give a reward function: its own, its class's, or the last part of a model's."""
    if isinstance(function, nn.Module):
        function = get_config_model_id(function.config)  # type: ignore[arg-type]  # a module may have any attribute
    return function.split("/")[-1] if isinstance(function, str) else get_callable_name(function)


def _as_list(reward_funcs: Any) -> list[Any]:
    return reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]


def _columns_of_rewards(reward_funcs: Any) -> dict[str, str]:
    """The columns that reward functions ask for by name without a default, and who asks."""
    needed = {}
    for function in _as_list(reward_funcs):
        for parameter in _parameters(function):
            by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if by_name and parameter.default is parameter.empty and parameter.name not in REWARD_ARGUMENTS:
                name = getattr(function, "__name__", type(function).__name__)
                needed[parameter.name] = f"the reward function {name}"
    return needed
