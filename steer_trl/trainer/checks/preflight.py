"""What can be found wrong with a trainer's arguments before a model is loaded."""

import inspect
import logging
import math
from typing import Any

from datasets import Dataset, IterableDataset
from torch import nn
from trl.trainer.utils import get_callable_name, get_config_model_id

from steer_trl.config import SteerGRPOConfig
from steer_trl.exceptions import InvalidTypeError
from steer_trl.rewards import MathReward
from steer_trl.shaping.hold import first_rollouts
from steer_trl.trainer.checks.prompts import prompt_complaints
from steer_trl.validation import refuse

logger = logging.getLogger(__name__)

# What TRL passes to every reward function besides the columns of the data set, and where there are environments.
ALWAYS = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}
REWARD_ARGUMENTS = ALWAYS | {"environments"}


def check_trainer_arguments(arguments: dict[str, Any]) -> None:
    """Refuse the bound arguments of a [`~trl.GRPOTrainer`] that cannot work; see [`~steer_trl.SteerGRPOTrainer`]."""
    args = arguments.get("args")
    if args is not None and not isinstance(args, SteerGRPOConfig):
        raise InvalidTypeError(
            f"args must be a SteerGRPOConfig, which names the method, got a {type(args).__name__}. It takes "
            "every argument of GRPOConfig."
        )
    if args is not None and args.dynamic_sampling != "none":
        refuse(sampling_complaints(arguments, args), "SteerGRPOTrainer")
    if args is not None and args.hold_entropy is not None and args.hold_entropy_unit == "initial":
        _remark_short(arguments.get("train_dataset"), args)
    complaints = _reward_complaints(arguments.get("reward_funcs"))
    if arguments.get("environment_factory") is not None or arguments.get("rollout_func") is not None:
        refuse(complaints, "SteerGRPOTrainer")
        return  # these may bring prompts and columns of their own
    complaints += _dataset_complaints("train_dataset", arguments.get("train_dataset"), arguments.get("reward_funcs"))
    complaints += _size_complaints(arguments.get("train_dataset"), args)
    eval_dataset = arguments.get("eval_dataset")
    named = eval_dataset if isinstance(eval_dataset, dict) else {"": eval_dataset}
    for name, dataset in named.items():
        label = f"eval_dataset[{name!r}]" if name else "eval_dataset"
        complaints += _dataset_complaints(label, dataset, arguments.get("reward_funcs"))
    refuse(complaints, "SteerGRPOTrainer")
    refuse(prompt_complaints(arguments, args), "SteerGRPOTrainer")


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


def _remark_short(dataset: Any, args: SteerGRPOConfig) -> None:
    """State that a run is over before its level is known, where its length is."""
    if args.max_steps > 0:
        micro_batches = args.max_steps * args.gradient_accumulation_steps
        rollouts = -(-micro_batches // (args.steps_per_generation * args.num_iterations))
    elif isinstance(dataset, Dataset):
        rollouts = math.ceil(args.num_train_epochs * (len(dataset) // args.groups_per_rollout))
    else:
        return
    if rollouts < (needed := first_rollouts(args)):
        logger.warning(
            "hold_entropy=%g holds nothing in this run: its level is relative to the mean entropy of the first %d "
            "rollouts, and the run has %d. Train for longer, or give the level in nats (hold_entropy_unit='nats').",
            *(args.hold_entropy, needed, rollouts),
        )


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
