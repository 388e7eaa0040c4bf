"""Sums over the trained tokens of all ranks: of one optimizer step, or of one batch in evaluation.

Every key, its unit and its estimator are in the registry, `diagnostics/keys/`, and in `docs/report.md`. TRL averages
what falls between two log lines and puts `eval_` before the keys of evaluation.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from steer_trl.diagnostics.estimators import MEAN
from steer_trl.diagnostics.keys import SUMMED
from steer_trl.diagnostics.statistics import Statistic
from steer_trl.functional.order_statistics import extremes


class StepSummary:
    """Adds up the statistics of an optimizer step's micro-batches, and gathers the sums of all ranks once.

    Its keys are fixed before anything is measured, so every rank gathers equally many sums whatever failed on one.
    """

    def __init__(self) -> None:
        self._estimators = dict(SUMMED)
        self._sums: dict[str, Tensor] = {}
        self._ends: Tensor | None = None  # of the weights: the smallest with its sign turned, and the largest

    def expect(self, marks: Iterable[str]) -> None:
        """Let these keys be shares of tokens. Every rank expects the same, in the same order."""
        for key in marks:
            self._estimators.setdefault(key, MEAN)

    def add(self, statistics: Mapping[str, Statistic]) -> None:
        """Take in the statistics of one micro-batch, whose keys are in the registry or expected: else a `KeyError`."""
        for key, statistic in statistics.items():
            if self._estimators[key] is not statistic.estimator:
                raise KeyError(f"{key} has another estimator in the registry")
            sums = torch.stack(list(statistic.sums))
            self._sums[key] = self._sums[key] + sums if key in self._sums else sums

    def add_weights(self, weights: Tensor, mask: Tensor) -> None:
        """Take in the smallest and the largest weight of one micro-batch."""
        low, high = extremes(weights, mask.bool())
        ends = torch.stack([-low, high])
        self._ends = ends if self._ends is None else torch.maximum(self._ends, ends)

    def pop(self, accelerator: Accelerator) -> dict[str, float]:
        """Return the numbers of what was added since the last call, on any rank; NaN is left out. Collective."""
        own = self._own(accelerator.device)
        of_ranks = np.asarray(accelerator.gather(own).view(-1, len(own)).tolist())
        totals = iter(of_ranks[:, 2:].sum(0).tolist())
        low = -float(of_ranks[:, 0].max())
        high = float(of_ranks[:, 1].max())
        metrics = {"shaping/weight_min": low, "shaping/weight_max": high} if math.isfinite(low + high) else {}
        for key, estimator in self._estimators.items():
            metrics[key] = estimator.finish(*(next(totals) for _ in range(estimator.sums)))
        self._sums, self._ends = {}, None
        return {key: value for key, value in metrics.items() if not math.isnan(value)}

    def _own(self, device: torch.device) -> Tensor:
        """The ends and all sums of this rank, float32: 0 where it has added nothing."""
        ends = torch.full((2,), -math.inf, device=device) if self._ends is None else self._ends.float()
        absent = {key: torch.zeros(one.sums, device=device) for key, one in self._estimators.items()}
        return torch.cat([ends, *(absent | self._sums).values()])


def masked_mean_over_ranks(accelerator: Accelerator, values: Tensor, mask: Tensor) -> float:
    """Mean of the finite `values` on the `mask`, over all ranks; NaN if there is none. Collective."""
    valid = mask.bool() & values.isfinite()
    total = torch.stack([torch.where(valid, values.float(), 0.0).sum(), valid.sum().float()])
    total, count = accelerator.reduce(total, reduction="sum").tolist()
    return total / count if count else float("nan")
