"""Properties of TRL's losses, ranges of TRL's numeric settings, and complaints about other settings of TRL.

A loss that a later version of TRL adds is not listed here, so it is never refused.
"""

import math
from dataclasses import fields
from typing import Any, NamedTuple


class Loss(NamedTuple):
    """The properties of one of TRL's losses.

    `clips` states whether a clipped token has no gradient. `averages_over` names the units over which the loss is
    averaged. `weighs_tokens` states whether each token keeps a gradient of its own if a completion has one ratio
    (`importance_sampling_level="sequence"`).
    """

    clips: bool
    averages_over: str
    weighs_tokens: bool = False


LOSSES = {
    "grpo": Loss(clips=True, averages_over="completions"),
    "dapo": Loss(clips=True, averages_over="rollout tokens"),
    "bnpo": Loss(clips=True, averages_over="micro-batch tokens"),
    "dr_grpo": Loss(clips=True, averages_over="completions"),
    "luspo": Loss(clips=True, averages_over="completions"),
    "cispo": Loss(clips=False, averages_over="rollout tokens", weighs_tokens=True),
    "sapo": Loss(clips=False, averages_over="completions"),
    "vespo": Loss(clips=False, averages_over="rollout tokens", weighs_tokens=True),
}
CLIPPED_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.clips)
TOKEN_WEIGHING_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.weighs_tokens)
TOKEN_MEAN_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.averages_over.endswith("tokens"))

INTERVALS = {
    **dict.fromkeys(("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations"), "[1, inf)"),
    **dict.fromkeys(("steps_per_generation", "num_iterations"), "[1, inf)"),
    **dict.fromkeys(("learning_rate", "num_train_epochs", "beta"), "[0, inf)"),
    "temperature": "(0, inf)",
    "top_p": "(0, 1]",
    "top_k": "[-1, inf)",
    "min_p": "[0, 1]",
}
"""Ranges of settings that TRL does not check. A wrong value causes a late traceback, or is never noticed."""


def entropy_target_complaints(args: Any) -> list[str]:
    """Return a complaint if TRL's `entropy_target` has no effect. A user may mistake it for `hold_entropy`."""
    default = next(field.default for field in fields(args) if field.name == "entropy_target")
    if args.use_adaptive_entropy or args.entropy_target == default:
        return []
    return [
        f"entropy_target={args.entropy_target!r} has no effect without use_adaptive_entropy=True, which adjusts TRL's "
        "entropy bonus. To hold the entropy with a method of this package, set hold_entropy, for instance "
        "hold_entropy=0.65 for 65 % of its initial value."
    ]


def reward_weight_complaints(args: Any) -> list[str]:
    """Return a complaint about weights that are not finite: every reward becomes infinite, or is left out as NaN."""
    weights = args.reward_weights or ()
    if all(not isinstance(weight, float) or math.isfinite(weight) for weight in weights):
        return []
    return [
        f"reward_weights must be finite, got {args.reward_weights!r}: nothing would be learned, because TRL computes "
        "each advantage from the weighted sum of rewards. Set 0 to leave a function out."
    ]
