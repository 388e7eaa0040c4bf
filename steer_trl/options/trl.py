"""TRL's losses and the ranges of its numbers, and two of its mistakes in our words.

A loss that a later TRL adds is refused nowhere.
"""

from dataclasses import fields
from typing import Any, NamedTuple


class Loss(NamedTuple):
    """A loss of TRL's: whether a clipped token has no gradient, and what its denominator counts."""

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

INTERVALS = {
    **dict.fromkeys(("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations"), "[1, inf)"),
    **dict.fromkeys(("steps_per_generation", "num_iterations"), "[1, inf)"),
    **dict.fromkeys(("learning_rate", "num_train_epochs", "beta"), "[0, inf)"),
    "temperature": "(0, inf)",
    "top_p": "(0, 1]",
    "top_k": "[-1, inf)",
    "min_p": "[0, 1]",
}
"""Of numbers that end in a traceback otherwise, in the middle of a training, or without one."""


def entropy_target_complaints(args: Any) -> list[str]:
    """Complain about TRL's `entropy_target` if it has no effect: it reads like `hold_entropy`, and holds nothing."""
    default = next(field.default for field in fields(args) if field.name == "entropy_target")
    if args.use_adaptive_entropy or args.entropy_target == default:
        return []
    return [
        f"entropy_target={args.entropy_target!r} has no effect without use_adaptive_entropy=True, which adjusts TRL's "
        "entropy bonus. To hold the entropy with a method of this package, set hold_entropy, for instance "
        "hold_entropy=0.65 for 65 % of its initial value."
    ]
