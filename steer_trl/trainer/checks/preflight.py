"""Checks, when a trainer is constructed, for problems that TRL would miss or report only hours later."""

import logging
import math
import os
from collections.abc import Mapping
from typing import Any

from datasets import Dataset, IterableDataset
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from trl.data_utils import is_conversational
from trl.trainer.utils import get_callable_name, get_config_model_id

from steer_trl.config import SteerGRPOConfig
from steer_trl.data.lengths import check_tokenizer
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.exceptions import InvalidTypeError, InvalidValueError
from steer_trl.rewards import MathReward
from steer_trl.shaping import Shaper, first_rollouts, reads_sensitivities
from steer_trl.trainer.trl import GRPOTrainer
from steer_trl.validation import refuse

logger = logging.getLogger(__name__)


def check_trainer_arguments(**arguments: Any) -> None:
    """Raise if arguments of a [`~steer_trl.SteerGRPOTrainer`] have the wrong type or cannot work together."""
    args = arguments.get("args")
    if args is not None and not isinstance(args, SteerGRPOConfig):
        raise InvalidTypeError(
            f"args must be a SteerGRPOConfig, which names the method, got a {type(args).__name__}. It takes "
            "every argument of GRPOConfig."
        )
    if args is not None and args.is_incomplete:
        raise InvalidValueError(
            "args were read from a pickle, such as training_args.bin or the memory of another process. Once a trainer "
            "was made with them, a pickle leaves out every text that could be a secret. Write the SteerGRPOConfig "
            "anew, or pass its arguments to the other process and make it there. copy.deepcopy keeps everything."
        )
    dataset = arguments.get("train_dataset")
    rewards = arguments.get("reward_funcs")
    rewards = rewards if isinstance(rewards, list) else [rewards]
    complaints = _gold_complaints(dataset, rewards)
    if args is not None:
        if args.hold_entropy is not None and args.hold_entropy_unit == "initial":
            _remark_short(dataset, args)
        if args.dynamic_sampling != "none":
            complaints += _sampling_complaints(arguments, args, rewards)
        # Environments and a rollout_func may use prompts that are not in the data set.
        if arguments.get("environment_factory") is None and arguments.get("rollout_func") is None:
            complaints += _size_complaints(dataset, args)
    refuse(complaints, "SteerGRPOTrainer")


def check_benchmarks(benchmarks: Any, args: SteerGRPOConfig | None, eval_dataset: Any, **others: Any) -> None:
    """Raise if `benchmarks` has the wrong type or cannot be combined with the trainer's other arguments."""
    if benchmarks is None:
        return
    if not isinstance(benchmarks, BenchmarkEvaluation):
        complaint = f"benchmarks must be a BenchmarkEvaluation, got {benchmarks!r:.80}. Write BenchmarkEvaluation"
        refuse([f"{complaint}(load_benchmarks(['math500'])), both of steer_trl.evaluation."], "SteerGRPOTrainer")
    complaints = [
        f"benchmarks cannot be combined with {name}. Evaluate saved checkpoints with steer-trl eval."
        for name, value in others.items()
        if value
    ]
    if args is not None:
        complaints += benchmarks.complaints(args.metric_for_best_model, eval_dataset is not None)
        if args.remove_unused_columns:
            complaints.append("benchmarks cannot be combined with remove_unused_columns=True. Leave it unset.")
    refuse(complaints, "benchmarks")


def check_processing_class(trainer: GRPOTrainer) -> None:
    """Raise if the tokenizer has no vocabulary, or no chat template although prompts are conversations."""
    dataset = trainer.train_dataset
    reader = trainer.processing_class
    if not isinstance(dataset, Dataset) or "prompt" not in dataset.column_names or trainer.rollout_func is not None:
        return
    name = get_config_model_id(trainer.model.config)
    readers = (reader, getattr(reader, "tokenizer", reader))
    check_tokenizer(readers[1], name)
    if is_conversational(dataset[0]) and not any(getattr(one, "chat_template", None) for one in readers):
        complaint = f"The tokenizer of {name!r} has no chat template, but the prompts are conversations. Train from "
        complaint += "the instruction-tuned model, save its template as chat_template.jinja, or give plain texts."
        refuse([complaint], "SteerGRPOTrainer")


def check_compiled(args: SteerGRPOConfig, shapers: Mapping[str, Shaper], model: Any) -> bool:
    """Return whether the `model` is compiled by the configuration, by the launcher or by the user.

    Exact entropy sensitivities are computed by hooks (`head_pass.py`), which a compiled model skips. So the token log
    has estimates instead. Raises `ValueError` if a method needs exact sensitivities.
    """
    # `accelerate launch --dynamo_backend` sets this variable.
    backend = os.environ.get("ACCELERATE_DYNAMO_BACKEND", "no")
    if args.torch_compile:
        cause = "torch_compile=True"
    elif backend.lower() not in ("", "no"):
        cause = f"dynamo_backend={backend!r} of accelerate"
    elif isinstance(model, OptimizedModule) or getattr(model, "_compiled_call_impl", None) is not None:
        cause = "a compiled model"
    else:
        return False
    complaints = [
        f"{cause} cannot be combined with {name!r} as it is set: it reads the exact entropy change by hooks that a "
        "compiled model passes by. Leave the model uncompiled, or choose steer_form='paper', which estimates."
        for name, shaper in shapers.items()
        if reads_sensitivities({name: shaper})
    ]
    refuse(complaints, "SteerGRPOTrainer")
    return True


def _sampling_complaints(arguments: dict[str, Any], args: SteerGRPOConfig, rewards: list[Any]) -> list[str]:
    """Return complaints about trainer arguments that dynamic sampling cannot work with."""
    names = [_reward_name(function) for function in rewards]
    field = "dynamic_sampling_reward"
    wanted = args.dynamic_sampling_reward
    complaints = []
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
            "number. Load the data set."
        )
    if args.dynamic_sampling == "resample" and arguments.get("environment_factory") is not None:
        complaints.append(
            "dynamic_sampling='resample' cannot be combined with environment_factory: the state of an environment "
            "ends with its attempt. Leave dynamic_sampling unset."
        )
    return complaints


def _size_complaints(dataset: Any, args: SteerGRPOConfig) -> list[str]:
    """Return a complaint if the data set is too small for a rollout.

    TRL would finish such a run without a single step and without an error.
    """
    prompts = args.groups_per_rollout
    if not isinstance(dataset, Dataset) or len(dataset) >= prompts:
        return []
    return [
        f"train_dataset must have >= {prompts} rows, got {len(dataset)}: a rollout takes {prompts} different prompts "
        f"(generation_batch_size={args.generation_batch_size} over num_generations={args.num_generations}). Lower "
        "per_device_train_batch_size or steps_per_generation, or add rows."
    ]


def _remark_short(dataset: Any, args: SteerGRPOConfig) -> None:
    """Warn if the run will end before the target of `hold_entropy` is known."""
    if args.max_steps > 0:
        micro_batches = args.max_steps * args.gradient_accumulation_steps
        rollouts = -(-micro_batches // (args.steps_per_generation * args.num_iterations))
    elif isinstance(dataset, Dataset):
        rollouts = math.ceil(args.num_train_epochs * (len(dataset) // args.groups_per_rollout))
    else:
        return
    if rollouts < (needed := first_rollouts(args)):
        logger.warning(
            "hold_entropy=%g has no effect in this run: its target is relative to the mean entropy of the first %d "
            "rollouts, and the run has %d. Train for longer, or give the target in nats (hold_entropy_unit='nats').",
            *(args.hold_entropy, needed, rollouts),
        )


def _gold_complaints(dataset: Any, rewards: list[Any]) -> list[str]:
    """Return a complaint if the data set has no gold answers, or has some that `MathReward` cannot read."""
    math_reward = next((function for function in rewards if isinstance(function, MathReward)), None)
    if math_reward is None or not isinstance(dataset, Dataset):
        return []
    if "solution" not in dataset.column_names:
        return [
            f"train_dataset has no column 'solution', which MathReward compares answers with; its columns are "
            f"{sorted(dataset.column_names)}. Rename the column of gold answers, or use load_math_dataset."
        ]
    # Rows of other tasks may have no gold answer.
    bad = math_reward.unreadable(gold for gold in dataset["solution"] if gold is not None)
    if not bad:
        return []
    examples = [f"{gold!r}: {reason}" for gold, reason in bad.items()]
    return [
        f"train_dataset: {len(bad)} of its solutions cannot be scored ({', '.join(sorted(examples)[:3])}). "
        "Remove their rows; load_math_dataset does."
    ]


def _reward_name(function: Any) -> str:
    """Return TRL's name for a reward function, taken from the function, its class or its model."""
    if isinstance(function, nn.Module):
        function = get_config_model_id(function.config)  # type: ignore[arg-type]  # a module may have any attribute
    return function.split("/")[-1] if isinstance(function, str) else get_callable_name(function)
