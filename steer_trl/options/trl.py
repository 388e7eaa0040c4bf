"""What TRL's losses are, and what some of its settings must be: TRL states it after the model is loaded, or never."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from transformers import training_args
from transformers.integrations import get_available_reporting_integrations
from trl import GRPOConfig

from steer_trl.validation import in_interval, is_number, listed, one_of


class Loss(NamedTuple):
    """A loss of TRL's.

    Attributes:
        clips (`bool`): whether a clipped token has no gradient; the other losses bound the ratio in their own ways.
        averages_over (`str`): what its denominator counts: `"rollout tokens"`, `"micro-batch tokens"`, or
            `"completions"`, of which each has the same weight whatever the lengths of the others.
    """

    clips: bool
    averages_over: str


LOSSES = {
    "grpo": Loss(clips=True, averages_over="completions"),
    "dapo": Loss(clips=True, averages_over="rollout tokens"),
    "bnpo": Loss(clips=True, averages_over="micro-batch tokens"),
    "dr_grpo": Loss(clips=True, averages_over="completions"),
    "luspo": Loss(clips=True, averages_over="completions"),
    "cispo": Loss(clips=False, averages_over="rollout tokens"),
    "sapo": Loss(clips=False, averages_over="completions"),
    "vespo": Loss(clips=False, averages_over="rollout tokens"),
}
CLIPPED_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.clips)
TOKEN_MEAN_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.averages_over.endswith("tokens"))
HIDING_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.averages_over == "rollout tokens")
"""Those whose denominator the tokens of hidden completions leave."""

CHOICES = {
    "loss_type": tuple(LOSSES),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}
IN_EXTRA = ("trackio", "wandb", "tensorboard")
COUNT, AMOUNT, POSITIVE, SHARE = "[1, inf)", "[0, inf)", "(0, inf)", "(0, 1]"
INTERVALS = {
    "per_device_train_batch_size": COUNT,
    "per_device_eval_batch_size": COUNT,
    "gradient_accumulation_steps": COUNT,
    "steps_per_generation": COUNT,
    "num_iterations": COUNT,
    "num_generations": COUNT,
    "max_completion_length": COUNT,
    "num_train_epochs": POSITIVE,
    "temperature": POSITIVE,
    "learning_rate": AMOUNT,
    "max_grad_norm": AMOUNT,
    "beta": AMOUNT,
    "epsilon": AMOUNT,
    "epsilon_high": AMOUNT,
    "top_p": SHARE,
    "top_k": "[-1, inf)",
    "min_p": "[0, 1]",
    "vllm_gpu_memory_utilization": SHARE,
}


def trl_complaints(args: GRPOConfig) -> list[str]:
    """Complain about each setting of TRL's that is outside its range, and about a `delta` that clips too early."""
    complaints = []
    for name, allowed in CHOICES.items():
        complaints += one_of(name, getattr(args, name), allowed)
    if args.scale_rewards not in ("group", "batch", "none", True, False):
        complaints += one_of("scale_rewards", args.scale_rewards, ("group", "batch", "none"))
    for name, interval in INTERVALS.items():
        value: Any = getattr(args, name)
        if is_number(value):  # a text is TRL's to read, and None its default
            complaints += in_interval(name, value, interval)
    for name in (field.name for field in fields(args) if field.name.endswith("_kwargs")):
        if not _is_mapping(getattr(args, name)):
            example = '{"KEY": "VALUE"}'
            complaints.append(f"{name} must be a mapping, as JSON or YAML {example}, got {getattr(args, name)!r}.")
    if args.max_steps is not None and args.max_steps < 1 and args.max_steps != -1:
        complaints.append(f"max_steps must be >= 1, or -1 for num_train_epochs, got {args.max_steps!r}.")
    wants_bf16 = args.bf16 or (args.bf16 is None and not args.fp16)  # TRL's default
    if (
        wants_bf16
        and not args.use_cpu
        and not (training_args.is_torch_bf16_gpu_available() or training_args.is_torch_xla_available())
    ):
        complaints.append(
            "bf16=True needs a GPU that computes in bfloat16, and this machine has none. To run on the CPU, set "
            "use_cpu to true and bf16 to false."
        )
    complaints += _tracker_complaints(args.report_to)
    clip = args.epsilon if args.epsilon_high is None else args.epsilon_high
    if is_number(args.delta) and is_number(clip) and args.delta <= 1 + clip:
        complaints.append(
            f"delta must be > 1 + epsilon_high = {1 + clip:g}, got {args.delta!r}: it bounds the ratios that the "
            "clipping leaves, those of negative advantages. Leave it unset, or use 10."
        )
    return complaints


def _tracker_complaints(report_to: Any) -> list[str]:
    """Complain about trackers that are not there; Transformers would once the model is loaded."""
    given = listed(report_to or ())
    names = set(given) - {"none", "all"}
    here = get_available_reporting_integrations()
    complaints = []
    if len(given) > 1 and names != set(given):
        complaints.append(f"report_to={given!r} cannot be used: 'none' and 'all' stand alone. Leave them out.")
    for name in sorted(names - set(here)):
        package = "'steer_trl[trackers]'" if name in IN_EXTRA else "it"
        complaints.append(
            f"report_to={name!r} cannot be used: there is no such tracker, or its package is not installed "
            f"here; installed: {', '.join(sorted(here)) or 'none'}. pip install {package}, or set report_to to 'none'."
        )
    return complaints


def _is_mapping(value: Any) -> bool:
    """Whether TRL can read a mapping of arguments: one, a text of JSON, or none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return False
    return value is None or isinstance(value, Mapping)
