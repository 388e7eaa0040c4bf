r"""KL-Cov, arXiv 2505.22617: the tokens that would lower the entropy most are held to where the policy was.

    loss_it = -r_it A_it + coef |lp_it - lq_it| on the top `fraction` of the tokens by cov; no clipping at all

cov as in `covariance.py`, over the optimizer step (over one micro-batch on one GPU in the authors' code). With TRL's
clipping switched off, the same gradient comes from A_hat = A - coef sign(lp - lq) / r on those tokens; sign(0) = 0, so
the first step of a rollout is unchanged. The loss that is logged leaves the penalty out, and TRL's clip ratios are 0.
fraction is 0.002 for 7B models and 0.0002 for 32B. A_hat can turn its sign: that is the penalty winning.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.functional import order_statistics
from steer_trl.functional.order_statistics import Reduce
from steer_trl.options.base import ShapingConfig, option
from steer_trl.options.needs import SIGNS, UNCLIPPED
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.methods.covariance import ENTROPY_MECHANISM, CovarianceMeasure, count_of, covariance, means


@dataclass
class KlCovOptions(ShapingConfig):
    """Settings of `"kl_cov"`."""

    kl_cov_fraction: float = option(0.002, "Share of the tokens that are held; 0.0002 for 32B models.", "[0, 1]")
    kl_cov_coef: float = option(1.0, "Weight of the penalty; 0 is GRPO without clipping.", "[0, inf)")


class KlCov(Shaper[KlCovOptions]):
    """A penalty on the change of the tokens with the largest covariance."""

    options = KlCovOptions
    paper = ENTROPY_MECHANISM
    needs = SIGNS
    surrogate = UNCLIPPED

    @property
    def active(self) -> bool:
        """False where nothing is held."""
        return self.args.kl_cov_fraction > 0 and self.args.kl_cov_coef > 0

    def measure(self, batch: TokenBatch, reduce: Reduce) -> CovarianceMeasure:
        """Return the means, and the smallest covariance that is held."""
        mean = means(batch, reduce)
        cov, count = covariance(batch, mean.advantage, mean.logp), mean.tokens
        held = count_of(self.args.kl_cov_fraction, count.item(), int(count.item()))
        threshold = order_statistics.kth_largest(cov, cov > -torch.inf, held, reduce)
        return CovarianceMeasure(mean.advantage, mean.logp, threshold.double())

    def bonus(self, batch: TokenBatch, measure: CovarianceMeasure) -> Float[Tensor, "B T"]:
        """Return - coef sign(lp - lq) / r on the held tokens, 0 elsewhere."""
        pull = (batch.logps.float() - batch.old_logps.float()).sign() / batch.ratio
        return torch.where(self._held(batch, measure), -self.args.kl_cov_coef * pull, 0.0)

    def marks(self, batch: TokenBatch, measure: CovarianceMeasure) -> dict[str, Bool[Tensor, "B T"]]:
        """Return the held tokens."""
        return {"kl_cov/held": self._held(batch, measure)}

    def _held(self, batch: TokenBatch, measure: CovarianceMeasure) -> Tensor:
        cov, threshold = covariance(batch, measure.mean_advantage, measure.mean_logp), measure.threshold
        # Relative: the same token's numbers differ in their last bits from batch to batch.
        top = (cov >= threshold - self.tolerance * threshold.abs()) & (cov != 0)  # equal advantages have none
        # A token that has not moved feels no penalty; one whose ratio has no inverse in float32 could not.
        return top & (batch.logps != batch.old_logps) & batch.ratio.isfinite() & batch.ratio.reciprocal().isfinite()
