"""Checks, when a trainer is constructed, for problems that TRL would miss or report only hours later."""

import logging
import os
from collections.abc import Mapping
from typing import Any

from datasets import Dataset, IterableDataset
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from trl import GRPOConfig
from trl.data_utils import is_conversational
from trl.trainer.utils import get_callable_name, get_config_model_id

from steer_trl.config import SteerGRPOConfig
from steer_trl.data.lengths import check_tokenizer
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.rewards import MathReward
from steer_trl.shaping import Shaper
from steer_trl.support.exceptions import InvalidTypeError, InvalidValueError
from steer_trl.support.validation import refuse
from steer_trl.trainer.checks.columns import column_complaints, list_datasets
from steer_trl.trainer.correctness import correctness_complaints
from steer_trl.trainer.trl import GRPOTrainer, loss_complaints, tokenizer_of

logger = logging.getLogger(__name__)


def check_trainer_arguments(
    trainer: GRPOTrainer,
    *,
    args: Any,
    reward_funcs: Any,
    train_dataset: Any,
    eval_dataset: Any,
    rollout_func: Any,
    environment_factory: Any,
) -> None:
    """Raise if arguments of a [`~steer_trl.SteerGRPOTrainer`] have the wrong type or cannot work together."""
    if args is not None and not isinstance(args, SteerGRPOConfig):
        kind = type(args)
        is_derived = isinstance(args, GRPOConfig) and kind is not GRPOConfig
        remedy = f" Change the base class of {kind.__name__} to SteerGRPOConfig." if is_derived else ""
        raise InvalidTypeError(
            f"args must be a SteerGRPOConfig, which names the method, got a {kind.__name__}. It takes every argument "
            f"of GRPOConfig.{remedy}"
        )
    if args is not None and args.is_incomplete:
        raise InvalidValueError(
            "args were read from a pickle, such as training_args.bin or the memory of another process. Once a trainer "
            "was made with them, a pickle leaves out every text that could be a secret. Write the SteerGRPOConfig "
            "anew, or pass its arguments to the other process and make it there. copy.deepcopy keeps everything."
        )
    if isinstance(reward_funcs, tuple):
        raise InvalidValueError("reward_funcs must be a function, or a list of them, got a tuple. Use [...].")
    rewards = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    has_environments = environment_factory is not None
    complaints = _gold_complaints(train_dataset, rewards)
    # What a rollout_func returns besides completions is passed to the reward functions like columns.
    if rollout_func is None:
        datasets = list_datasets(train_dataset, eval_dataset)
        complaints += column_complaints(trainer, rewards, datasets, args, has_environments)
    if args is not None:
        complaints += loss_complaints(args)
        resamples = args.dynamic_sampling == "resample"
        if resamples and isinstance(train_dataset, IterableDataset):
            complaints.append(
                "dynamic_sampling='resample' cannot be combined with a streamed train_dataset: it reads rows by their "
                "number. Load the data set, or leave dynamic_sampling unset: hold_entropy works without it."
            )
        if resamples and has_environments:
            complaints.append(
                "dynamic_sampling='resample' cannot be combined with environment_factory: the state of an environment "
                "ends with its attempt. Leave dynamic_sampling unset: hold_entropy works without it."
            )
        # The names of environments that give rewards are known later.
        if not has_environments:
            names = [_reward_name(function) for function in rewards if function is not None]
            complaints += correctness_complaints(names, args)
        # Environments and a rollout_func may use prompts that are not in the data set.
        if not has_environments and rollout_func is None:
            complaints += _size_complaints(train_dataset, args)
    refuse(complaints, "SteerGRPOTrainer")


def check_benchmarks(benchmarks: Any, args: SteerGRPOConfig | None, eval_dataset: Any, **other_arguments: Any) -> None:
    """Raise if `benchmarks` has the wrong type or cannot be combined with the trainer's other arguments."""
    if benchmarks is None:
        return
    if not isinstance(benchmarks, BenchmarkEvaluation):
        complaint = f"benchmarks must be a BenchmarkEvaluation, got {benchmarks!r:.80}. Write BenchmarkEvaluation"
        refuse([f"{complaint}(load_benchmarks(['math500'])), both of steer_trl.evaluation."], "SteerGRPOTrainer")
    complaints = [
        f"benchmarks cannot be combined with {name}. Evaluate saved checkpoints with steer-trl eval."
        for name, value in other_arguments.items()
        if value
    ]
    if args is not None:
        complaints += benchmarks.complaints(args.metric_for_best_model, eval_dataset is not None)
        if args.remove_unused_columns:
            complaints.append("benchmarks cannot be combined with remove_unused_columns=True. Leave it unset.")
    refuse(complaints, "benchmarks")


def check_correctness_of(trainer: GRPOTrainer) -> None:
    """Raise if it is unclear which reward function decides for a method, environments included."""
    refuse(correctness_complaints(trainer.reward_func_names, trainer.args), "SteerGRPOTrainer")


def check_tokenizer_of(trainer: GRPOTrainer) -> None:
    """Raise if the tokenizer has no vocabulary, or no chat template although prompts are conversations."""
    name = get_config_model_id(trainer.model.config)
    tokenizer = tokenizer_of(trainer)
    check_tokenizer(tokenizer, name)
    dataset = trainer.train_dataset
    if not isinstance(dataset, Dataset) or not len(dataset) or trainer.rollout_func is not None:
        return
    reader: Any = trainer.processing_class
    if is_conversational(dataset[0]) and not (reader.chat_template or tokenizer.chat_template):
        complaint = (
            f"The tokenizer of {name!r} has no chat template, but the prompts are conversations. Train from the "
            "instruction-tuned model, save its template as chat_template.jinja, or give plain texts."
        )
        refuse([complaint], "SteerGRPOTrainer")


def check_compiled(args: SteerGRPOConfig, shapers: Mapping[str, Shaper], model: Any) -> bool:
    """Return whether the `model` is compiled by the configuration, by the launcher or by the user.

    Exact entropy sensitivities are computed by hooks (`head_pass.py`), which a compiled model skips. So the token log
    has estimates instead. Raises `ValueError` if a method needs exact sensitivities.
    """
    # `accelerate launch --dynamo_backend` sets this variable.
    backend = os.environ.get("ACCELERATE_DYNAMO_BACKEND", "no")
    # `model.compile()` compiles in place, and leaves the class as it is.
    is_of_user = isinstance(model, OptimizedModule) or getattr(model, "_compiled_call_impl", None) is not None
    if args.torch_compile:
        cause = "torch_compile=True"
    elif backend.lower() not in ("", "no"):
        cause = f"dynamo_backend={backend!r} of accelerate"
    elif is_of_user:
        cause = "a compiled model"
    else:
        return False
    complaints = [
        f"{cause} cannot be combined with {name!r} as it is set: it reads the exact entropy change by hooks that a "
        "compiled model passes by. Leave the model uncompiled, or use 'steer' with steer_form='paper', which "
        "estimates it."
        for name, shaper in shapers.items()
        if "sensitivities" in shaper.reads
    ]
    refuse(complaints, "SteerGRPOTrainer")
    return True


def _reward_name(function: Any) -> str:
    """Return the name that TRL gives to a reward function or to a reward model."""
    if callable(function) and not isinstance(function, nn.Module):
        return get_callable_name(function)
    name = function if isinstance(function, str) else get_config_model_id(function.config)
    return name.split("/")[-1]


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


def _gold_complaints(dataset: Any, rewards: list[Any]) -> list[str]:
    """Return a complaint if the data set has gold answers that `MathReward` cannot read."""
    math_reward = next((function for function in rewards if isinstance(function, MathReward)), None)
    if math_reward is None or not isinstance(dataset, Dataset) or "solution" not in dataset.column_names:
        return []
    # Rows of other tasks may have no gold answer.
    reasons = math_reward.unreadable(gold for gold in dataset["solution"] if gold is not None)
    if not reasons:
        return []
    examples = [f"{gold!r}: {reason}" for gold, reason in reasons.items()]
    return [
        f"train_dataset: {len(reasons)} of its solutions cannot be scored ({', '.join(sorted(examples)[:3])}). "
        "Remove their rows; load_math_dataset does."
    ]
