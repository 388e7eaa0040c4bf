"""What a user sees of the weights in TRL's log.

Every key, its unit and its estimator are in `docs/metrics.md`.

All are over the trained tokens of all ranks: the weights of one optimizer step (of one batch in evaluation), the
entropy of one rollout. TRL averages what falls between two log lines and puts `eval_` before the keys of evaluation.
"""

import torch
from accelerate import Accelerator
from torch import Tensor

from steer_trl import statistics
from steer_trl.shaping import Shaped, TokenBatch

SHAPING_KEYS = (
    "shaping/weight_mean",
    "shaping/weight_min",
    "shaping/weight_max",
    "shaping/share_changed",
    "shaping/advantage_change",
)
METRIC_KEYS = (
    *SHAPING_KEYS,
    "rollout_advantage_change",
    "rollout_entropy",
    "stare/gate",
    "stare/amplify",
    "stare/attenuate",
    "stare/target_entropy",
)


class ShapingSummary:
    """Collects what happened to the micro-batches of an optimizer step, and reduces it over ranks once."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self._marks: list[str] = []

    def add(self, batch: TokenBatch, result: Shaped) -> None:
        """Take in one micro-batch."""
        valid = batch.mask.bool()
        weights, advantages = result.weights, result.advantages
        change = torch.zeros_like(weights) if advantages is None else advantages - batch.advantages
        # Sums of (w - 1): float32 keeps a mean weight of 0.99999 apart from 1.
        sums = [torch.ones_like(weights), weights - 1, ((weights != 1) | (change != 0)).float(), change.abs()]
        sums = [torch.where(valid, x, 0.0).sum() for x in (*sums, *(mark.float() for mark in result.marks.values()))]
        self._marks = list(result.marks)
        self._parts.append(torch.stack([*statistics.extremes(weights, valid), *sums]))

    def pop(self, accelerator: Accelerator) -> dict[str, float]:
        """Return the metrics of what was added since the last call. Collective: call it on every rank.

        Without a single trained token all are NaN, which TRL's log leaves out.
        """
        keys = (*SHAPING_KEYS, *self._marks)
        gathered = accelerator.gather(torch.stack(self._parts))
        gathered = gathered.view(-1, len(keys) + 1).cpu()
        self._parts.clear()
        lowest, highest = gathered[:, 0].min().item(), gathered[:, 1].max().item()
        count, change, *sums = gathered[:, 2:].sum(0).tolist()
        if not count:
            return dict.fromkeys(keys, float("nan"))
        return dict(zip(keys, (1 + change / count, lowest, highest, *(x / count for x in sums)), strict=True))


def masked_mean_over_ranks(accelerator: Accelerator, values: Tensor, mask: Tensor) -> float:
    """Mean of the finite `values` on the `mask`, over all ranks; NaN if there is none. Collective."""
    valid = mask.bool() & values.isfinite()
    total = torch.stack([torch.where(valid, values.float(), 0.0).sum(), valid.sum().float()])
    total, count = accelerator.reduce(total, reduction="sum").tolist()
    return total / count if count else float("nan")


def append_all(log: dict[str, list[float]], metrics: dict[str, float]) -> None:
    """Append each metric to TRL's log."""
    for key, value in metrics.items():
        log[key].append(value)
