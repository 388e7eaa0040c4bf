"""What can be found wrong with a training run before a launcher, a data set or a model: all of it, at once."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trl import ModelConfig

from steer_trl import SteerGRPOConfig
from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.overwrite import folder_complaints
from steer_trl.cli.rewards import MATH, load_rewards
from steer_trl.data.instructions import PAPERS
from steer_trl.data.loader import argument_complaints
from steer_trl.data.reading import file_complaints
from steer_trl.evaluation.benchmarks import benchmark_complaints
from steer_trl.redact import changed
from steer_trl.shaping.methods import SETTINGS
from steer_trl.validation import at_least, refuse

CONFIGS = ("config.json", "adapter_config.json")


def check(math_args: MathArguments, training_args: SteerGRPOConfig, model_args: ModelConfig) -> None:
    """Refuse a run that cannot work.

    Raises:
        `ValueError`: with every reason.
    """
    complaints = [
        *missing_complaints(model_args.model_name_or_path, math_args.dataset_name, training_args.output_dir),
        *_model_complaints(model_args),
        *_data_complaints(math_args),
        *_reward_complaints(math_args, training_args),
        *_said(math_args.load_tools),
        *_evaluation_complaints(math_args, training_args),
        *_package_complaints(training_args, model_args),
        *folder_complaints(math_args, training_args),
    ]
    refuse(list(dict.fromkeys(complaints)), "steer-trl train")


def _said(call: Any, *args: Any, **named: Any) -> list[str]:
    """What `call` complains about."""
    try:
        call(*args, **named)
    except (ValueError, FileNotFoundError) as error:
        return getattr(error, "complaints", [str(error)])
    return []


def missing_complaints(model: str | None, dataset: list[str] | None, output_dir: str | None) -> list[str]:
    """Complain about what no run can do without."""
    needed = {
        "model_name_or_path is missing. Give the folder of a saved model, or its name on the Hub.": model,
        "dataset_name is missing. Give a short name such as dapo-math-17k, a name on the Hub, or a file.": dataset
        and all(name.strip() for name in dataset),
        "output_dir is missing. Give the folder that the run is written to.": output_dir,
    }
    return [complaint for complaint, given in needed.items() if not given]


def model_complaints(name: str) -> list[str]:
    """Complain about a file in the place of a model, or a folder without one; all else says who loads it."""
    if Path(name).is_file():
        return [f"model_name_or_path={name!r} must be a folder or a name on the Hub, and is a file. Give its folder."]
    if os.path.isdir(name) and not any(Path(name, file).is_file() for file in CONFIGS):
        return [
            f"model_name_or_path={name!r} must be the folder of a saved model, and there is no {CONFIGS[0]} in it. "
            "Give the folder that save_model or save_pretrained has written."
        ]
    return []


def _model_complaints(args: ModelConfig) -> list[str]:
    name = args.model_name_or_path
    complaints = model_complaints(name) if name else []
    if not args.use_peft:
        lora = [name for name in changed(args) if name.startswith("lora_") or name in ("use_rslora", "use_dora")]
        complaints += [
            f"{name}={getattr(args, name)!r} cannot be combined with use_peft=False: without adapters all weights are "
            "trained, and it would be ignored. Add --use_peft true, or leave it unset."
            for name in lora
        ]
    return complaints


def _data_complaints(args: MathArguments) -> list[str]:
    complaints = argument_complaints(args.answer_format, args.instruction, args.limit)
    if args.max_prompt_length is not None:
        complaints += at_least("max_prompt_length", args.max_prompt_length, 1)
    return complaints + [complaint for name in args.dataset_name or () for complaint in file_complaints(name)]


def _reward_complaints(args: MathArguments, training: SteerGRPOConfig) -> list[str]:
    complaints = _said(args.load_rewards)
    asks = "correct_threshold" in SETTINGS and any(n in SETTINGS["correct_threshold"] for n in training.shaping_names)
    threshold, low = training.correct_threshold, args.reward_incorrect
    if asks and args.reward_funcs == ["math"] and not low <= threshold < 1:
        complaints.append(
            f"correct_threshold must be in [{low:g}, 1), got {threshold!r}: a reward here is 1 or {low:g}, and with "
            "this one every completion would count as the same. Leave it unset."
        )
    if not args.asks_for_math:
        idle = ("reward_incorrect", "reward_timeout", "answer_column", "answer_format")
        complaints += [
            f"{name}={value!r} cannot be combined with reward_funcs={args.reward_funcs!r}: only 'math' reads it. "
            "Leave it unset, or add 'math'."
            for name, value in changed(args).items()
            if name in idle
        ]
    return complaints


def _evaluation_complaints(args: MathArguments, training: SteerGRPOConfig) -> list[str]:
    evaluates = training.eval_strategy != "no"
    given = changed(args)
    if not args.eval_benchmarks:
        names = ("eval_temperature", "eval_top_p", "eval_samplings", "eval_judge", "eval_instruction")
        idle = [name for name in names if name in given]
        complaints = [
            f"{name}={getattr(args, name)!r} cannot be combined with eval_benchmarks=None: nothing is sampled then. "
            "Name benchmarks, or leave it unset."
            for name in idle
        ]
        if evaluates:
            complaints.append(
                f"eval_strategy={_value(training.eval_strategy)!r} needs eval_benchmarks: there is nothing to "
                "evaluate on. Name some, such as --eval_benchmarks math500, or set eval_strategy: 'no'."
            )
        return complaints
    complaints = benchmark_complaints(args.eval_benchmarks)
    if args.eval_instruction not in (None, PAPERS) and args.eval_instruction.count("{problem}") != 1:
        complaints.append(
            "eval_instruction must be 'papers', or contain {problem} exactly once, where the problem goes, got "
            f"{args.eval_instruction!r}."
        )
    if args.eval_instruction is not None and args.eval_judge != MATH:
        complaints.append(
            f"eval_instruction={args.eval_instruction!r} cannot be combined with eval_judge={args.eval_judge!r}, "
            "which is given every benchmark as it is. Leave it unset."
        )
    complaints += _said(args.ways_to_draw, training.max_completion_length)
    complaints += [
        f"{name}={given[name]!r} cannot be combined with eval_samplings, with which it would be ignored. Leave it "
        "unset."
        for name in ("eval_temperature", "eval_top_p")
        if args.eval_samplings and name in given
    ]
    complaints += _said(load_rewards, [args.eval_judge], {}, field="eval_judge") if args.eval_judge != MATH else []
    if not evaluates:
        complaints.append(
            "eval_benchmarks cannot be combined with eval_strategy='no', which never evaluates. Set eval_strategy: "
            "steps, or eval_benchmarks: null in the recipe."
        )
    return complaints


def _value(strategy: Any) -> str:
    return getattr(strategy, "value", strategy)  # Transformers makes an Enum of the text


def _package_complaints(training: SteerGRPOConfig, model: ModelConfig) -> list[str]:
    """Say which packages are asked for and missing, with the extra that brings them."""
    wanted = {
        ("use_vllm=True", "vllm", "steer_trl[vllm]"): training.use_vllm,
        ("use_peft=True", "peft", "steer_trl[peft]"): model.use_peft,
        ("use_liger_kernel=True", "liger_kernel", "liger-kernel"): training.use_liger_kernel,
        ("load_in_4bit or load_in_8bit", "bitsandbytes", "bitsandbytes"): model.load_in_4bit or model.load_in_8bit,
    }
    return [
        f"{setting} needs {package}, which is not installed here: pip install {extra!r}, or leave it out"
        for (setting, package, extra), is_wanted in wanted.items()
        if is_wanted and find_spec(package) is None
    ]
