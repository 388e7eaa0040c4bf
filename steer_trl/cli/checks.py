"""Checks a training run for settings without effect and for missing packages."""

from collections.abc import Collection
from importlib.util import find_spec
from typing import Any

from transformers.integrations import INTEGRATION_TO_CALLBACK
from trl import ModelConfig

from steer_trl import SteerGRPOConfig
from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.rewards import MATH
from steer_trl.options.base import find_changes
from steer_trl.support.validation import as_tuple, check_interval, refuse
from steer_trl.trainer.trl import loss_complaints

OF_MATH = ("reward_incorrect", "reward_timeout", "answer_column", "answer_format")
OF_EVALUATION = ("eval_samplings", "eval_judge", "eval_instruction")


def check(math_args: MathArguments, training_args: SteerGRPOConfig, model_args: ModelConfig) -> None:
    """Raise one error that lists all reasons why the run cannot work, if there are any."""
    complaints = _evaluation_complaints(math_args, training_args)
    complaints += _reward_complaints(math_args, training_args) + _package_complaints(training_args, model_args)
    complaints += _dry_run_complaints(math_args, training_args)
    complaints += _lora_complaints(model_args) + _trl_complaints(training_args)
    refuse(complaints, "steer-trl train")


def check_ignored(args: Any, names: Collection[str], cause: str) -> list[str]:
    """Return complaints about settings that were changed but have no effect because of another setting.

    Only the settings in `names` are checked. `cause` describes the other setting in the complaint, for example as
    `"backend='transformers'"`.
    """
    return [
        f"{name}={value!r} has no effect with {cause}. Leave it unset."
        for name, value in find_changes(args).items()
        if name in names
    ]


def _evaluation_complaints(args: MathArguments, training: SteerGRPOConfig) -> list[str]:
    evaluates = training.eval_strategy != "no"
    if not args.eval_benchmarks:
        complaints = check_ignored(args, OF_EVALUATION, "eval_benchmarks=None")
        if evaluates or training.eval_on_start:
            strategy = f"eval_strategy={getattr(training.eval_strategy, 'value', None)!r}"
            complaints.append(
                f"{strategy if evaluates else 'eval_on_start=True'} needs eval_benchmarks. Name some, "
                "such as --eval_benchmarks math500, or leave it out (eval_strategy: 'no')."
            )
        return complaints
    judged = args.eval_judge != MATH
    complaints = check_ignored(args, ("eval_instruction",), f"eval_judge={args.eval_judge!r}") if judged else []
    if not evaluates:
        complaints.append(
            "eval_benchmarks cannot be combined with eval_strategy='no', which never evaluates. Set eval_strategy: "
            "steps, or eval_benchmarks: null in the recipe."
        )
    return complaints


def _reward_complaints(args: MathArguments, training: SteerGRPOConfig) -> list[str]:
    if not args.asks_for_math:
        return check_ignored(args, OF_MATH, f"reward_funcs={args.reward_funcs!r}")
    if "correct_threshold" not in find_changes(training) or args.reward_funcs != [MATH]:
        return []
    why = "a completion's reward is 1 or the first of these, and all would count as the same"
    return check_interval("correct_threshold", training.correct_threshold, f"[{args.reward_incorrect:g}, 1)", why)


def _dry_run_complaints(args: MathArguments, training: SteerGRPOConfig) -> list[str]:
    resume = training.resume_from_checkpoint
    if not args.dry_run or resume in (None, "false"):
        return []
    return [
        f"dry_run=True cannot be combined with resume_from_checkpoint={resume!r}, because it tries the first rollout "
        "of a run. Leave one of them out."
    ]


def _lora_complaints(model: ModelConfig) -> list[str]:
    if model.use_peft:
        return []
    return [
        f"{name}={value!r} has no effect without use_peft=True. Add --use_peft true, or leave it unset."
        for name, value in find_changes(model).items()
        if name.startswith("lora_") or name in ("use_rslora", "use_dora")
    ]


def _trl_complaints(training: SteerGRPOConfig) -> list[str]:
    """Return complaints about names that TRL and Transformers would refuse after the model is loaded."""
    complaints = loss_complaints(training)
    # `TrainingArguments` has replaced 'none' by an empty list.
    if not {*map(str, as_tuple(training.report_to or ()))} <= INTEGRATION_TO_CALLBACK.keys():
        trackers = ", ".join(map(repr, INTEGRATION_TO_CALLBACK))
        complaints.append(f"report_to={training.report_to!r} must be 'none' alone, or some of {trackers}.")
    return complaints


def _package_complaints(training: SteerGRPOConfig, model: ModelConfig) -> list[str]:
    """Return complaints about packages that a setting needs and that are not installed."""
    uses = {
        ("use_vllm=True", "vllm", "steer_trl[vllm]"): training.use_vllm,
        ("use_peft=True", "peft", "steer_trl[peft]"): model.use_peft,
        ("use_liger_kernel=True", "liger_kernel", "liger-kernel"): training.use_liger_kernel,
        ("load_in_4bit or load_in_8bit", "bitsandbytes", "bitsandbytes"): model.load_in_4bit or model.load_in_8bit,
    }
    return [
        f"{setting} needs {package}, which is not installed here: pip install {extra!r}, or leave it out."
        for (setting, package, extra), is_wanted in uses.items()
        if is_wanted and find_spec(package) is None
    ]
