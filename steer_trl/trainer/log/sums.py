"""What a user sees of an optimizer step in TRL's log.

Every key, its unit and its estimator are in `docs/metrics.md`.

All are over the trained tokens of all ranks: the weights of one optimizer step (of one batch in evaluation), the
entropy of one rollout. TRL averages what falls between two log lines and puts `eval_` before the keys of evaluation.
"""

import math
from collections.abc import Mapping

import torch
from accelerate import Accelerator
from torch import Tensor

from steer_trl.diagnostics import Statistic
from steer_trl.functional.order_statistics import extremes

Keys = tuple[str, ...]


class StepSummary:
    """Adds up the statistics of an optimizer step's micro-batches, and gathers the sums of all ranks once.

    Every rank adds the same keys in the same order, whatever could be measured there: what could not counts no token.
    """

    def __init__(self) -> None:
        self._sums: dict[Keys, Tensor] = {}
        self._statistics: dict[str, Statistic] = {}
        self._ends: Tensor | None = None  # of the weights: the smallest with its sign turned, and the largest

    def add(self, statistics: Mapping[str, Statistic]) -> None:
        """Take in the statistics of one micro-batch."""
        if statistics:
            keys, sums = tuple(statistics), torch.stack([x for one in statistics.values() for x in one.sums])
            self._sums[keys] = self._sums[keys] + sums if keys in self._sums else sums
            self._statistics.update(statistics)

    def add_weights(self, weights: Tensor, mask: Tensor) -> None:
        """Take in the smallest and the largest weight of one micro-batch."""
        low, high = extremes(weights, mask.bool())
        ends = torch.stack([-low, high])
        self._ends = ends if self._ends is None else torch.maximum(self._ends, ends)

    def pop(self, accelerator: Accelerator) -> dict[str, float]:
        """Return the numbers of what was added since the last call. Collective: call it on every rank.

        What nothing could be measured of is NaN, which TRL's log leaves out.
        """
        ends = [] if self._ends is None else [self._ends.float()]
        own = torch.cat([*ends, *self._sums.values()])
        of_ranks = accelerator.gather(own).view(-1, len(own)).cpu().double()
        sums = of_ranks[:, 2 * len(ends) :].sum(0).tolist()
        totals: dict[str, list[float]] = {}
        for keys in self._sums:
            for key in keys:
                count = len(self._statistics[key].sums)
                part, sums = sums[:count], sums[count:]
                totals[key] = [a + b for a, b in zip(totals.get(key, [0.0] * count), part, strict=True)]
        metrics = {key: self._statistics[key].finish(*total) for key, total in totals.items()}
        if ends:
            low, high = (-of_ranks[:, 0].max()).item(), of_ranks[:, 1].max().item()
            metrics["shaping/weight_min"] = low if math.isfinite(low) else math.nan
            metrics["shaping/weight_max"] = high if math.isfinite(high) else math.nan
        self._sums, self._statistics, self._ends = {}, {}, None
        return metrics


def masked_mean_over_ranks(accelerator: Accelerator, values: Tensor, mask: Tensor) -> float:
    """Mean of the finite `values` on the `mask`, over all ranks; NaN if there is none. Collective."""
    valid = mask.bool() & values.isfinite()
    total = torch.stack([torch.where(valid, values.float(), 0.0).sum(), valid.sum().float()])
    total, count = accelerator.reduce(total, reduction="sum").tolist()
    return total / count if count else float("nan")
