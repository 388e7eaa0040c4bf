"""What TRL's losses are (one that a later TRL adds is refused nowhere), and where some of its numbers must lie."""

from typing import NamedTuple


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
