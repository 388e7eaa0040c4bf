"""What a user sees of the weights in TRL's log.

Every key, its unit and its estimator are in `docs/metrics.md`.

All are over the trained tokens of all ranks: the weights of one optimizer step (of one batch in evaluation), the
entropy of one rollout. TRL averages what falls between two log lines and puts `eval_` before the keys of evaluation.
"""

import math

import torch
from accelerate import Accelerator
from torch import Tensor

from steer_trl.functional.order_statistics import extremes
from steer_trl.shaping import Shaped, TokenBatch

ROUNDING = 1e-3  # nats: a kernel sums in float32 whatever the model's precision, and its errors are near 1e-5


def out_of_bounds(batch: TokenBatch, vocabulary_size: int) -> Tensor:
    """Return where log-probability or entropy is impossible `[B, T]`: lp > 0, H < 0, H > ln V, NaN, infinite.

    Fused kernels have returned such numbers before, and a training goes on with them.
    """
    entropies = batch.entropies
    is_possible = batch.logps.isfinite() & (batch.logps <= ROUNDING)
    return ~(is_possible & (entropies >= -ROUNDING) & (entropies <= math.log(vocabulary_size) + ROUNDING))


def token_metrics(batch: TokenBatch, result: Shaped, vocabulary_size: int) -> dict[str, Tensor]:
    """Return what is logged as a mean over the trained tokens, `[B, T]` each, by its key in the log."""
    weights = result.weights
    change = torch.zeros_like(weights) if result.advantages is None else result.advantages - batch.advantages
    return {
        "shaping/weight_mean": weights,
        "shaping/share_changed": (weights != 1) | (change != 0),
        "shaping/advantage_change": change.abs(),
        "sanity/out_of_bounds": out_of_bounds(batch, vocabulary_size),
        **result.marks,
    }


class ShapingSummary:
    """Collects what happened to the micro-batches of an optimizer step, and reduces it over ranks once."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self._keys: list[str] = []

    def add(self, batch: TokenBatch, result: Shaped, vocabulary_size: int) -> None:
        """Take in one micro-batch."""
        valid = batch.mask.bool()
        means = token_metrics(batch, result, vocabulary_size)
        means["shaping/weight_mean"] = means["shaping/weight_mean"] - 1  # float32 keeps .99999 apart from 1
        sums = [torch.where(valid, values.float(), 0.0).sum() for values in means.values()]
        self._keys = list(means)
        self._parts.append(torch.stack([*extremes(result.weights, valid), valid.sum().float(), *sums]))

    def pop(self, accelerator: Accelerator) -> dict[str, float]:
        """Return the metrics of what was added since the last call. Collective: call it on every rank.

        Without a single trained token all are NaN, which TRL's log leaves out.
        """
        gathered = accelerator.gather(torch.stack(self._parts)).view(-1, len(self._keys) + 3).cpu()
        self._parts.clear()
        lowest, highest = gathered[:, 0].min().item(), gathered[:, 1].max().item()
        count, *sums = gathered[:, 2:].sum(0).tolist()
        means = [total / count if count else math.nan for total in sums]
        metrics = dict(zip(self._keys, means, strict=True))
        metrics["shaping/weight_mean"] += 1
        ends = {"shaping/weight_min": lowest, "shaping/weight_max": highest}
        return metrics | (ends if count else dict.fromkeys(ends, math.nan))


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
