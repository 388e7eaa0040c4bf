"""The settings of dynamic sampling: train only on groups whose completions are not all equally correct.

Dynamic sampling is DAPO's (arXiv 2503.14476, section 3.2). STARE's released scripts have it on, with 3 times as many
prompts as are trained on, at most 10 attempts, and the surplus dropped.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from steer_trl.options.base import ShapingConfig, choice, option
from steer_trl.options.conflicts import idle_conflicts
from steer_trl.options.trl import HIDING_LOSSES


@dataclass
class SamplingOptions(ShapingConfig):
    """Dynamic sampling: which of the groups that were written are trained on."""

    dynamic_sampling: str = choice(
        "none",
        ("none", "mask", "resample"),
        "What happens to a group whose completions are all equally correct: 'none' trains on it, as TRL does; 'mask' "
        "takes it out of the loss and of every statistic; 'resample' replaces it by the group of another prompt.",
    )
    dynamic_sampling_reward: str | None = option(
        None,
        "Name of the reward function that decides whether a completion is correct; by default the only one there is.",
    )
    dynamic_sampling_factor: int = option(
        1, "'resample': prompts of an attempt, as a multiple of the prompts of a rollout.", "[1, inf)"
    )
    dynamic_sampling_max_attempts: int = option(10, "'resample': the most attempts for a rollout.", "[1, inf)")
    dynamic_sampling_surplus: str = choice(
        "keep",
        ("keep", "drop"),
        "'resample': what happens to informative groups that are left over: 'keep' trains on them in the next "
        "rollout, when the policy is a few updates older; 'drop' leaves them out, as the authors of STARE do.",
    )


def sampling_complaints(
    args: SamplingOptions, surrogates: Mapping[str, Mapping[str, Any]], bonuses: Collection[str] = ()
) -> list[str]:
    """Say which settings of dynamic sampling cannot work with others, or with those in `surrogates`, by method.

    `bonuses` are the methods that set the coefficient of TRL's entropy bonus.
    """
    resamples, is_on = args.dynamic_sampling == "resample", args.dynamic_sampling != "none"
    here, nothing_new = f"dynamic_sampling={args.dynamic_sampling!r}", "it writes no other groups"
    complaints = idle_conflicts(
        args,
        [
            ("dynamic_sampling_reward", not is_on, here, "it judges no completion"),
            *(
                (f"dynamic_sampling_{name}", not resamples, here, nothing_new)
                for name in ("factor", "max_attempts", "surplus")
            ),
        ],
    )
    return complaints + (_mask_conflicts(args, here, surrogates, bonuses) if args.dynamic_sampling == "mask" else [])


def _mask_conflicts(
    args: SamplingOptions, here: str, surrogates: Mapping[str, Mapping[str, Any]], bonuses: Collection[str]
) -> list[str]:
    """Refuse losses that hidden groups cannot leave: the given one, or one that a method brings."""
    why = "denominator counts completions or micro-batches, which hidden groups cannot leave"
    brought = {name: surrogate["loss_type"] for name, surrogate in surrogates.items() if "loss_type" in surrogate}
    complaints = [
        f"{name!r} cannot be combined with {here}: it sets loss_type={loss!r}, whose {why}. Use "
        "dynamic_sampling='resample'."
        for name, loss in brought.items()
        if loss not in HIDING_LOSSES
    ]
    if not brought and args.loss_type not in HIDING_LOSSES:
        complaints.append(
            f"loss_type={args.loss_type!r} cannot be combined with {here}: its {why}. Use 'dapo', or "
            "dynamic_sampling='resample'."
        )
    of_trl = [(name, getattr(args, name)) for name in ("use_adaptive_entropy", "entropy_coef")]
    for name, value in (*of_trl, *(("advantage_shaping", method) for method in bonuses)):
        if value:
            complaints.append(
                f"{name}={value!r} cannot be combined with {here}: TRL's entropy bonus is a mean over micro-batches, "
                "hidden ones too, and would shrink with each of them. Use dynamic_sampling='resample', or leave it "
                "unset."
            )
    return complaints
