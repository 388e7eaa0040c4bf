"""What a setting is, and those that every method has: the ground on which each method's own settings stand."""

from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from steer_trl.validation import listed


def option(default: Any, help: str) -> Any:
    """Make a field of the configuration, with the text that the command line shows."""
    return field(default=default, metadata={"help": help})


def one_or_several(default: str, help: str) -> Any:
    """Make a field that holds a text or a list of them; the command line's parser forgets its default otherwise."""
    return field(default_factory=lambda: default, metadata={"help": help})


@dataclass
class ShapingConfig(GRPOConfig):
    """What to do to the advantages, whatever the method."""

    advantage_shaping: str | list[str] = one_or_several(
        "steer",
        "Name of a method, such as 'steer' or 'stare'; 'none' (exactly GRPO); the import path of a custom method; "
        "or a list of several.",
    )
    shaping_scope: str = option(
        "step",
        "What a token is compared with: the whole optimizer 'step' on all ranks, using the old policy's "
        "log-probabilities and entropies; 'exact_step' uses the current policy's; 'micro_batch' is one micro-batch on "
        "one rank, as in the authors' codes.",
    )
    correct_threshold: float = option(
        0.0, "A completion is correct where its reward is above this, for methods that ask: 0 fits 0/1 and -1/1."
    )
    shaping_options: dict[str, Any] | str | None = option(
        None, "Settings of a custom method; it reads them as self.args.shaping_options."
    )

    @property
    def shaping_names(self) -> tuple[str, ...]:
        """The methods in use; empty for `"none"`."""
        names = listed(self.advantage_shaping)
        return () if names == ("none",) else names
