"""Sums statistics over the trained tokens of all ranks, for an optimizer step or a batch of an evaluation.

Every key, its unit and its estimator are in the registry, `monitoring/keys.py`, and in `docs/healthy.md`. TRL averages
the values between two log lines, and puts `eval_` before the keys of an evaluation.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from steer_trl.monitoring.estimators import MEAN
from steer_trl.monitoring.keys import SUMMED
from steer_trl.monitoring.statistics import Statistic
from steer_trl.shaping.order_statistics import extremes


class StepSummary:
    """Sums the statistics of an optimizer step's micro-batches, and gathers the sums of all ranks once.

    The keys are fixed before anything is measured, so all ranks gather equally many sums even if one of them fails to
    measure something.
    """

    def __init__(self) -> None:
        self._estimators = dict(SUMMED)
        self._sums: dict[str, Tensor] = {}
        # The smallest weight is stored with its sign changed, so that one maximum gives both extremes of the weights.
        self._ends: Tensor | None = None

    def expect(self, marks: Iterable[str]) -> None:
        """Register the keys in `marks` as shares of tokens.

        Every rank must pass the same keys in the same order.
        """
        for key in marks:
            self._estimators.setdefault(key, MEAN)

    def add(self, statistics: Mapping[str, Statistic]) -> None:
        """Add the statistics of one micro-batch. Raises `KeyError` for a key that is not registered."""
        for key, statistic in statistics.items():
            if self._estimators[key] is not statistic.estimator:
                raise KeyError(f"{key} has a different estimator in the registry")
            sums = torch.stack(list(statistic.sums))
            self._sums[key] = self._sums[key] + sums if key in self._sums else sums

    def add_weights(self, weights: Tensor, mask: Tensor) -> None:
        """Update the step's smallest and largest weight with the weights of one micro-batch."""
        low, high = extremes(weights, mask.bool())
        ends = torch.stack([-low, high])
        self._ends = ends if self._ends is None else torch.maximum(self._ends, ends)

    def pop(self, accelerator: Accelerator) -> dict[str, float]:
        """Return the statistics of all ranks since the last call.

        Statistics that are NaN are left out. Collective.
        """
        own_sums = self._pack_own(accelerator.device)
        of_ranks = np.asarray(accelerator.gather(own_sums).view(-1, len(own_sums)).tolist())
        totals = iter(of_ranks[:, 2:].sum(0).tolist())
        low = -float(of_ranks[:, 0].max())
        high = float(of_ranks[:, 1].max())
        metrics = {"shaping/weight_min": low, "shaping/weight_max": high} if math.isfinite(low + high) else {}
        for key, estimator in self._estimators.items():
            metrics[key] = estimator.finish(*(next(totals) for _ in range(estimator.sums)))
        self._sums = {}
        self._ends = None
        return {key: value for key, value in metrics.items() if not math.isnan(value)}

    def _pack_own(self, device: torch.device) -> Tensor:
        """Return this rank's two extreme weights and its sums in one float32 tensor.

        The sums of unmeasured keys are 0.
        """
        ends = torch.full((2,), -math.inf, device=device) if self._ends is None else self._ends.float()
        absent = {key: torch.zeros(estimator.sums, device=device) for key, estimator in self._estimators.items()}
        return torch.cat([ends, *(absent | self._sums).values()])


def masked_mean_over_ranks(accelerator: Accelerator, values: Tensor, mask: Tensor) -> float:
    """Return the mean over all ranks of the finite `values` at the tokens in `mask`; NaN if there are none.

    Collective.
    """
    valid = mask.bool() & values.isfinite()
    total = torch.stack([torch.where(valid, values.float(), 0.0).sum(), valid.sum().float()])
    total, count = accelerator.reduce(total, reduction="sum").tolist()
    return total / count if count else float("nan")
