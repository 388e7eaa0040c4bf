"""What an update did to the entropy of the tokens it was made from: they are scored again right after it.

Two consecutive steps train on different tokens, whose entropies differ by more than an update changes. So the first
micro-batch of a diagnosed step is kept, and scored once more when the next step begins: a pass without gradient over
one micro-batch. Dropout, where there is any, is in both scores and makes the difference noisy.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from steer_trl.diagnostics.change import realised_statistics
from steer_trl.diagnostics.statistics import Statistic
from steer_trl.shaping import TokenBatch
from steer_trl.trainer.inputs import Score
from steer_trl.trainer.log.guard import guard
from steer_trl.trainer.trl import GRPOTrainer


class SecondLook:
    """The micro-batch that is kept until the update is made, and what the loss was given for it."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer
        self._kept: tuple[dict[str, Any], TokenBatch, Tensor] | None = None

    def keep(self, inputs: dict[str, Any], batch: TokenBatch, advantages: Tensor) -> None:
        """Keep the micro-batch `inputs`, whose loss sees the `advantages`."""
        self._kept = inputs, batch, advantages

    @torch.no_grad()
    def take(self, score: Callable[[dict[str, Any]], Score]) -> dict[str, Statistic]:
        """Return what the update did to the kept micro-batch, by the pass `score`; nothing where none is kept.

        A pass that fails leaves the keys, which are the same on every rank, and counts no token on this one.
        """
        if self._kept is None:
            return {}
        (inputs, batch, advantages), self._kept = self._kept, None
        entropies = torch.full_like(batch.entropies, math.nan)
        with guard(self._trainer, "The entropy after an update cannot be measured"):
            entropies = score(inputs).entropies
        return realised_statistics(batch, advantages, entropies)
