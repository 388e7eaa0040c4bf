"""Checks a training run for settings without effect and for missing packages."""

from collections.abc import Collection
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

from transformers.integrations import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations
from trl import ModelConfig

from steer_trl import SteerGRPOConfig
from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.name_checks import NOT_RESUMED
from steer_trl.cli.rewards import MATH
from steer_trl.options.base import find_changes
from steer_trl.support.validation import as_tuple, check_interval, refuse
from steer_trl.trainer.trl import loss_complaints

OF_MATH = ("reward_incorrect", "reward_timeout", "answer_column", "answer_format")
OF_EVALUATION = ("eval_samplings", "eval_judge", "eval_instruction")


def check(
    math_args: MathArguments, training_args: SteerGRPOConfig, model_args: ModelConfig, typed: Collection[str] = ()
) -> None:
    """Raise one error that lists all reasons why the run cannot work, if there are any.

    `typed` names the settings on the command line. One that has no effect is refused even at its default.
    """
    complaints = _evaluation_complaints(math_args, training_args, typed)
    complaints += _reward_complaints(math_args, training_args, typed)
    complaints += _package_complaints(training_args, model_args)
    complaints += _dry_run_complaints(math_args, training_args)
    complaints += _model_complaints(model_args, training_args, typed) + _trl_complaints(training_args)
    refuse(complaints, "steer-trl train")


def check_ignored(
    args: Any, names: Collection[str], cause: str, typed: Collection[str] = (), remedy: str = "Leave it unset"
) -> list[str]:
    """Return complaints about settings that were changed or typed but have no effect because of another setting.

    Only the settings in `names` are checked. `cause` describes the other setting in the complaint, for example as
    `"backend='transformers'"`.
    """
    changes = find_changes(args)
    return [
        f"{name}={getattr(args, name)!r} has no effect with {cause}. {remedy}."
        for name in names
        if name in changes or name in typed
    ]


def _evaluation_complaints(args: MathArguments, training: SteerGRPOConfig, typed: Collection[str]) -> list[str]:
    evaluates = training.eval_strategy != "no"
    if not args.eval_benchmarks:
        complaints = check_ignored(args, OF_EVALUATION, "eval_benchmarks=None", typed)
        if evaluates or training.eval_on_start:
            strategy = f"eval_strategy={getattr(training.eval_strategy, 'value', None)!r}"
            complaints.append(
                f"{strategy if evaluates else 'eval_on_start=True'} needs eval_benchmarks. Name some, "
                "such as --eval_benchmarks math500, or leave it out (eval_strategy: 'no')."
            )
        return complaints
    judge = f"eval_judge={args.eval_judge!r}"
    complaints = check_ignored(args, ("eval_instruction",), judge, typed) if args.eval_judge != MATH else []
    if not evaluates:
        complaints.append(
            "eval_benchmarks cannot be combined with eval_strategy='no', which never evaluates. Set eval_strategy: "
            "steps, or eval_benchmarks: null in the recipe."
        )
    return complaints


def _reward_complaints(args: MathArguments, training: SteerGRPOConfig, typed: Collection[str]) -> list[str]:
    if not args.asks_for_math:
        return check_ignored(args, OF_MATH, f"reward_funcs={args.reward_funcs!r}", typed)
    if "correct_threshold" not in find_changes(training) or args.reward_funcs != [MATH]:
        return []
    why = "a completion's reward is 1 or the first of these, and all would count as the same"
    return check_interval("correct_threshold", training.correct_threshold, f"[{args.reward_incorrect:g}, 1)", why)


def _dry_run_complaints(args: MathArguments, training: SteerGRPOConfig) -> list[str]:
    resume = training.resume_from_checkpoint
    if not args.dry_run or resume is None or resume.lower() in NOT_RESUMED:
        return []
    return [
        f"dry_run=True cannot be combined with resume_from_checkpoint={resume!r}, because it tries the first rollout "
        "of a run. Leave one of them out."
    ]


def _model_complaints(model: ModelConfig, training: SteerGRPOConfig, typed: Collection[str]) -> list[str]:
    """Return complaints about settings of the model that another setting leaves without effect."""
    names = [field.name for field in fields(model)]
    complaints = []
    if not model.use_peft:
        of_lora = [name for name in names if name.startswith("lora_") or name in ("use_rslora", "use_dora")]
        complaints += check_ignored(model, of_lora, "use_peft=False", typed, "Add --use_peft true, or leave it unset")
        complaints += [
            f"{name}=True needs use_peft=True, because quantized weights cannot be trained. Add --use_peft true."
            for name in ("load_in_4bit", "load_in_8bit")
            if getattr(model, name)
        ]
    if not model.load_in_4bit:
        of_4bit = [name for name in names if name.startswith("bnb_4bit") or name == "use_bnb_nested_quant"]
        complaints += check_ignored(model, of_4bit, "load_in_4bit=False", typed)
    # `TrainingArguments` has parsed the JSON string.
    twice = {"dtype": "dtype", "attn_implementation": "attn_implementation", "model_revision": "revision"}
    loading = training.model_init_kwargs if isinstance(training.model_init_kwargs, dict) else {}
    own = [name for name, other in twice.items() if other in loading]
    complaints += check_ignored(model, own, f"model_init_kwargs={loading!r}", typed, "Leave it out of one of them")
    return complaints


def _trl_complaints(training: SteerGRPOConfig) -> list[str]:
    """Return complaints about names that TRL and Transformers would refuse after the model is loaded."""
    complaints = loss_complaints(training)
    # `TrainingArguments` has replaced 'none' by an empty list.
    names = {*map(str, as_tuple(training.report_to or ()))}
    if not names <= INTEGRATION_TO_CALLBACK.keys():
        trackers = ", ".join(map(repr, INTEGRATION_TO_CALLBACK))
        complaints.append(f"report_to={training.report_to!r} must be 'none' alone, or some of {trackers}.")
    elif missing := names - {*get_available_reporting_integrations()}:
        complaints.append(
            f"report_to={training.report_to!r} needs packages that are not installed here, for "
            f"{', '.join(sorted(missing))}. Install them, or leave it out."
        )
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
