"""The setting of a run that ends by what it has generated: runs that write more for each step are compared by it."""

from dataclasses import dataclass

from steer_trl.options.base import ShapingConfig, option


@dataclass
class BudgetOptions(ShapingConfig):
    """How long a run lasts, beside TRL's `max_steps` and `num_train_epochs`."""

    max_generated_tokens: int | None = option(
        None,
        "End the run with the rollout that brings the generated tokens of all ranks, those of dropped groups "
        "included, to this number; the end is evaluated and saved where the run is. Unset: max_steps alone decides.",
        "[1, inf)",
    )
