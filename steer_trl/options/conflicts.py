"""Which settings methods cannot work with, TRL's or their own idle ones, and why: one complaint each, said once."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from steer_trl.options.base import ShapingConfig
from steer_trl.options.trl import CLIPPED_LOSSES

# What switches TRL's clipping off: ratios between 0 and a billion.
UNCLIPPED = {"epsilon": 1.0, "epsilon_high": 1e9, "delta": None}

BY_GROUP = ("group", True)
UNSCALED = ("none", False)


def idle_conflicts(args: ShapingConfig, settings: Collection[tuple[str, bool, str, str]]) -> list[str]:
    """Refuse each (setting, whether it is idle, with which other, why) that is idle and not its default."""
    defaults = {field.name: field.default for field in fields(args)}
    return [
        f"{name}={value!r} cannot be combined with {other}: {why}, so it would be ignored. Leave it unset."
        for name, is_idle, other, why in settings
        if is_idle and (value := getattr(args, name)) != defaults[name]
    ]


def advantage_conflicts(name: str, args: ShapingConfig, scales: Collection[str | bool] = BY_GROUP) -> list[str]:
    """Say what of TRL's advantages would be ignored by a method that replaces them; `scales` fit what it does."""
    complaints = []
    if args.scale_rewards not in scales:
        complaints.append(
            f"scale_rewards={args.scale_rewards!r} cannot be combined with {name!r}, which makes the advantages "
            "itself, so it would be ignored. Leave scale_rewards unset."
        )
    if args.multi_objective_aggregation != "sum_then_normalize":
        complaints.append(
            f"multi_objective_aggregation={args.multi_objective_aggregation!r} cannot be combined with {name!r}, "
            "which reads the weighted sum of the rewards. Leave it unset."
        )
    return complaints


def token_ratio_conflicts(name: str, args: ShapingConfig) -> list[str]:
    """Refuse ratios of whole completions, with which every token of one has the same gradient."""
    if args.importance_sampling_level == "token":
        return []
    return [
        f"importance_sampling_level={args.importance_sampling_level!r} cannot be combined with {name!r}, which "
        "chooses tokens: with one ratio per completion its tokens share one gradient, chosen or not. Leave it unset."
    ]


def sign_conflicts(name: str, args: ShapingConfig) -> list[str]:
    """Refuse what goes by the sign of a completion's advantage, for a method that can turn it for single tokens."""
    complaints = []
    if args.off_policy_mask_threshold is not None:
        complaints.append(
            f"off_policy_mask_threshold={args.off_policy_mask_threshold!r} cannot be combined with {name!r}: it drops "
            "completions by the sign of their advantage, which the method turns for single tokens. Leave it unset."
        )
    if args.loss_type in ("sapo", "vespo"):
        complaints.append(
            f"loss_type={args.loss_type!r} cannot be combined with {name!r}: it treats correct and incorrect "
            "completions differently, and the method turns the sign of single tokens. Use 'dapo'."
        )
    return complaints


def surrogate_conflicts(name: str, surrogate: Mapping[str, Any], args: ShapingConfig) -> list[str]:
    """Refuse what is set against the loss that a method brings; TRL's defaults give way to it."""
    if not surrogate:
        return []
    defaults = {field.name: field.default for field in fields(args)}
    complaints = [
        f"{setting}={value!r} cannot be combined with {name!r}, which brings a loss of its own: it needs "
        f"{setting}={needed!r}. Leave it unset."
        for setting, needed in surrogate.items()
        if (value := getattr(args, setting)) not in (needed, defaults[setting])
    ]
    if args.importance_sampling_level != "token":
        complaints.append(
            f"importance_sampling_level={args.importance_sampling_level!r} cannot be combined with {name!r}, whose "
            "loss has token ratios. Leave it unset."
        )
    if args.loss_type not in CLIPPED_LOSSES:
        complaints.append(
            f"loss_type={args.loss_type!r} cannot be combined with {name!r}, which brings a loss of its own. Use one "
            f"of {', '.join(map(repr, CLIPPED_LOSSES))}."
        )
    return complaints
