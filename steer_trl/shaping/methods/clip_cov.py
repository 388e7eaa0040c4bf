"""Clip-Cov, arXiv 2505.22617: a few of the tokens that would lower the entropy most get no gradient.

    pool = tokens with lower < cov < upper that the loss does not clip already
    A_hat = 0 on min(max(floor(fraction N), 1), |pool|) tokens of the pool, drawn at random; A elsewhere

cov as in `covariance.py`, N the trained tokens of the optimizer step (of one micro-batch on one GPU in the authors'
code, where the floor of 1 raises the share). The authors clip at 0 and 2 (`epsilon: 1, epsilon_high: 1`). Choose it
for the lightest touch; KL-Cov pulls on such tokens instead of dropping them.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.functional import order_statistics
from steer_trl.functional.clipping import clipped
from steer_trl.functional.order_statistics import Reduce
from steer_trl.options.base import ShapingConfig, option
from steer_trl.options.needs import TOKEN_RATIOS
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.methods.covariance import ENTROPY_MECHANISM, CovarianceMeasure, count_of, covariance, means


@dataclass
class ClipCovOptions(ShapingConfig):
    """Settings of `"clip_cov"`."""

    clip_cov_fraction: float = option(2e-4, "Share of tokens without gradient; 0 is GRPO.", "[0, 1]")
    clip_cov_lower: float = option(1.0, "Only tokens with a covariance above this are drawn.", "(-inf, inf)")
    clip_cov_upper: float = option(5.0, "Only tokens with a covariance below this are drawn.", "(-inf, inf)")


class ClipCov(Shaper[ClipCovOptions]):
    """Weights of 0 on drawn tokens."""

    options = ClipCovOptions
    paper = ENTROPY_MECHANISM
    random = True
    needs = TOKEN_RATIOS

    @classmethod
    def complaints(cls, args: ClipCovOptions) -> list[str]:
        """Refuse bounds with nothing between them."""
        lower, upper = args.clip_cov_lower, args.clip_cov_upper
        if lower < upper:
            return []
        return [f"clip_cov_lower must be below clip_cov_upper={upper!r}, got {lower!r}: no covariance lies between."]

    @property
    def active(self) -> bool:
        """False for a fraction of 0."""
        return self.args.clip_cov_fraction > 0

    def measure(self, batch: TokenBatch, reduce: Reduce) -> CovarianceMeasure:
        """Return the means, and the draw from which on tokens of the pool are dropped."""
        mean = means(batch, reduce)
        pool = self._pool(batch, mean.advantage, mean.logp)
        pooled = int(reduce(pool.sum(), "sum"))
        dropped = count_of(self.args.clip_cov_fraction, mean.tokens.item(), pooled)
        threshold = order_statistics.kth_largest(batch.draws, pool, dropped, reduce)
        return CovarianceMeasure(mean.advantage, mean.logp, threshold.double())

    def weights(self, batch: TokenBatch, measure: CovarianceMeasure) -> Float[Tensor, "B T"]:
        """Return 0 on the dropped tokens, 1 elsewhere."""
        return (~self._dropped(batch, measure)).float()

    def marks(self, batch: TokenBatch, measure: CovarianceMeasure) -> dict[str, Bool[Tensor, "B T"]]:
        """Return the dropped tokens."""
        return {"clip_cov/dropped": self._dropped(batch, measure)}

    def _dropped(self, batch: TokenBatch, measure: CovarianceMeasure) -> Tensor:
        return self._pool(batch, measure.mean_advantage, measure.mean_logp) & (batch.draws >= measure.threshold)

    def _pool(self, batch: TokenBatch, mean_advantage: Tensor, mean_logp: Tensor) -> Tensor:
        cov = covariance(batch, mean_advantage, mean_logp)
        low, high = clipped(batch.ratio, batch.advantages, 1 - batch.epsilon_low, 1 + batch.epsilon_high)
        return (cov > self.args.clip_cov_lower) & (cov < self.args.clip_cov_upper) & ~low & ~high
