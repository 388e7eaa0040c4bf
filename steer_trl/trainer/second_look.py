"""What an update did to the entropy of the tokens it was made from: they are scored again right after it.

Two consecutive steps train on different tokens, whose entropies differ by more than an update changes. So the first
micro-batch of a diagnosed step is kept, and scored once more when the next step begins: a pass without gradient over
one micro-batch. Dropout, where there is any, is in both scores and makes the difference noisy.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from steer_trl.diagnostics import Statistic, realised_statistics
from steer_trl.shaping import TokenBatch
from steer_trl.trainer.inputs import Score


class SecondLook:
    """The micro-batch that is kept until the update is made, and what the loss was given for it."""

    def __init__(self) -> None:
        self._kept: tuple[dict[str, Any], TokenBatch, Tensor] | None = None

    def keep(self, inputs: dict[str, Any], batch: TokenBatch, advantages: Tensor) -> None:
        """Keep the micro-batch `inputs`, whose loss sees the `advantages`."""
        self._kept = inputs, batch, advantages

    @torch.no_grad()
    def take(self, score: Callable[[dict[str, Any]], Score]) -> dict[str, Statistic]:
        """Return what the update did to the kept micro-batch, by the pass `score`; nothing where none is kept."""
        if self._kept is None:
            return {}
        (inputs, batch, advantages), self._kept = self._kept, None
        return realised_statistics(batch, advantages, score(inputs).entropies)
