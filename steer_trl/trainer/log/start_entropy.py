"""The entropy that a run began with: the mean `rollout_entropy` of its first rollouts, under the policy of each.

That of one rollout spans 5 % over the seeds of one model. So the mean is over four of them at least, and over as many
as have 32 prompts together; until then it is over those that there are.
"""

import math
from statistics import fmean
from typing import Any

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.hold import first_rollouts
from steer_trl.validation import from_state, is_within


class StartEntropy:
    """Takes the entropies of the first rollouts; it is kept in the checkpoint.

    Attributes:
        rollouts (`int`): how many the mean is over.
    """

    def __init__(self, args: ShapingConfig) -> None:
        self.rollouts = first_rollouts(args)
        self._entropies: list[float] = []

    @property
    def value(self) -> float | None:
        """Nats per token; `None` before the first rollout."""
        return fmean(self._entropies) if self._entropies else None

    @property
    def is_settled(self) -> bool:
        """Whether it has all the rollouts that it is the mean of."""
        return len(self._entropies) >= self.rollouts

    def take(self, entropy: float, is_untrained: bool) -> dict[str, float]:
        """Take the mean entropy of a new rollout, nats per token; return what the log says of the start.

        `is_untrained` says that no optimizer step was made. A run that is resumed without knowing its start takes
        nothing for it.
        """
        if not self.is_settled and (self._entropies or is_untrained) and math.isfinite(entropy) and entropy > 0:
            self._entropies.append(entropy)
        return {} if self.value is None else {"rollout_entropy/start": self.value}

    def state_dict(self) -> dict[str, Any]:
        """Return the entropies that it is the mean of; empty before the first rollout."""
        return {"entropies": list(self._entropies)} if self._entropies else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`].

        Raises:
            `ValueError`: a value is missing or cannot be.
        """
        must_be = "a list, each a number of nats in (0, inf)"
        self._entropies = list(from_state(state, "entropies", _are_entropies, must_be))


def _are_entropies(value: Any) -> bool:
    return isinstance(value, list) and all(is_within(entropy, "(0, inf)") for entropy in value)
