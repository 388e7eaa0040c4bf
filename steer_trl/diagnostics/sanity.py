"""Are these numbers possible at all? Fused kernels have returned others, and training continues with them."""

import math

from jaxtyping import Bool
from torch import Tensor

from steer_trl.diagnostics.statistics import Statistic, mean
from steer_trl.shaping.batch import TokenBatch

ROUNDING = 1e-3  # nats: a kernel sums in float32 whatever the model's precision, and its errors are near 1e-5


def out_of_bounds(batch: TokenBatch, vocabulary_size: int) -> Bool[Tensor, "B T"]:
    """Return where log-probability or entropy is impossible: lp > 0, H < 0, H > ln V, NaN, infinite."""
    entropies = batch.entropies
    is_possible = batch.logps.isfinite() & (batch.logps <= ROUNDING)
    return ~(is_possible & (entropies >= -ROUNDING) & (entropies <= math.log(vocabulary_size) + ROUNDING))


def sanity_statistics(batch: TokenBatch, vocabulary_size: int) -> dict[str, Statistic]:
    """Return the share of the trained tokens whose numbers are impossible."""
    return {"sanity/out_of_bounds": mean(out_of_bounds(batch, vocabulary_size), batch.mask.bool())}
