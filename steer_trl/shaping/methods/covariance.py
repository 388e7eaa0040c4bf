r"""Clip-Cov and KL-Cov, arXiv 2505.22617: restrain the few tokens that would lower the entropy most.

    cov_it = (A_it - mean A) (lp_it - mean lp)      means over the N trained tokens of the optimizer step

    clip_cov   A_hat = 0 on min(max(floor(fraction N), 1), |pool|) tokens drawn at random from the
               pool = tokens with lower < cov < upper that the loss does not clip already; A elsewhere
    kl_cov     loss_it = -r_it A_it + coef |lp_it - lq_it| on the top `fraction` by cov, without any clipping

lp and lq are the log-probabilities of a token under the current and the old policy, and r = exp(lp - lq). A
policy-gradient step lowers the entropy in proportion to cov, which is large for likely tokens with a high advantage
and for unlikely tokens with a low one. The authors' code computes the means over one micro-batch on one GPU. For
Clip-Cov the authors clip the ratio at 0 and 2 (`epsilon: 1, epsilon_high: 1`). For KL-Cov TRL's clipping is switched
off, and A_hat = A - coef sign(lp - lq) / r on the top tokens gives the gradient of the loss above. A_hat can have the
opposite sign of A, if the penalty outweighs the advantage. sign(0) = 0, so the first step of a rollout is unchanged,
and so are tokens that have moved by less than `STILL` nats, which may be rounding. The logged loss does not include
the penalty.

Use Clip-Cov to change as few tokens as possible. KL-Cov penalises the tokens with the largest cov instead of dropping
tokens.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.options.needs import ALL_TOKENS, SIGNS, TOKEN_RATIOS, UNCLIPPED
from steer_trl.shaping.base import PAPERS, Config, Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.clipping import find_clipped
from steer_trl.shaping.options import read_options
from steer_trl.shaping.order_statistics import Reduce, kth_largest
from steer_trl.support.precision import to_double

STILL = 1e-5
"""The change of a log-probability, in nats, below which a token counts as unchanged by KL-Cov."""


class CovarianceMeasure(NamedTuple):
    """Statistics over an optimizer step's tokens: the two means, and the threshold that selects tokens.

    All are float64.
    """

    mean_advantage: Tensor
    mean_logp: Tensor
    threshold: Tensor


class ByCovariance(Shaper[Config]):
    """The base class of Clip-Cov and KL-Cov. It computes the means and the threshold that selects tokens."""

    paper = PAPERS["2505.22617"]

    def rank(self, batch: TokenBatch, mean_advantage: Tensor, mean_logp: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number by which each token is ranked, and the mask of the candidates, both `[B, T]`."""
        raise NotImplementedError

    def measure(self, batch: TokenBatch, reduce: Reduce) -> CovarianceMeasure:
        """Return the means and the threshold.

        The threshold selects as many tokens as the authors' code does, and at least one.
        """
        valid = _find_valid(batch)
        # The sums are in float64, because they run over millions of tokens and must not depend on how these are split.
        advantages = torch.where(valid, batch.advantages.expand_as(valid), 0.0)
        logps = torch.where(valid, batch.logps, 0.0)
        sums = torch.stack([to_double(part).sum() for part in (valid, advantages, logps)])
        tokens, total_advantage, total_logp = reduce(sums, "sum")
        advantage = total_advantage / tokens.clamp(min=1)
        logp = total_logp / tokens.clamp(min=1)
        numbers, among = self.rank(batch, advantage, logp)
        count = max(math.floor(self.options.fraction * tokens.item() + 1e-6), 1)
        threshold = kth_largest(numbers, among, min(count, int(reduce(among.sum(), "sum"))), reduce)
        return CovarianceMeasure(advantage, logp, to_double(threshold))


@dataclass
class ClipCovOptions:
    """Options of `"clip_cov"`."""

    fraction: Annotated[float, Setting("Share of tokens without gradient; 0 is GRPO.", "[0, 1]", neutral=0)] = 2e-4
    lower: Annotated[float, Setting("Only tokens with a covariance above this are drawn.", "(-inf, inf)")] = 1.0
    upper: Annotated[float, Setting("Only tokens with a covariance below this are drawn.", "(-inf, inf)")] = 5.0


class ClipCov(ByCovariance[ShapingConfig]):
    """Clip-Cov, which gives a weight of 0 to tokens that are drawn at random from the pool."""

    options_class = ClipCovOptions
    options: ClipCovOptions
    reads = ("draws",)
    needs = TOKEN_RATIOS

    @classmethod
    def complaints(cls, args: ShapingConfig) -> list[str]:
        """Return a complaint if the lower bound is not below the upper bound."""
        pool = read_options(cls, args)
        if pool.lower < pool.upper:
            return []
        return [
            f"shaping_options.clip_cov.lower must be below upper={pool.upper!r}, got {pool.lower!r}: no "
            "covariance lies between."
        ]

    def rank(self, batch: TokenBatch, mean_advantage: Tensor, mean_logp: Tensor) -> tuple[Tensor, Tensor]:
        """Return a random number for each token, and the mask of the pool."""
        cov = covariance(batch, mean_advantage, mean_logp)
        low, high = find_clipped(batch.ratio, batch.advantages, 1 - batch.epsilon_low, 1 + batch.epsilon_high)
        is_between = (cov > self.options.lower) & (cov < self.options.upper)
        return batch.draws, is_between & ~low & ~high

    def weights(self, batch: TokenBatch, measure: CovarianceMeasure) -> Float[Tensor, "B T"]:
        """Return 0 for dropped tokens, 1 for others."""
        return (~self._find_dropped(batch, measure)).float()

    def marks(self, batch: TokenBatch, measure: CovarianceMeasure) -> dict[str, Bool[Tensor, "B T"]]:
        """Return the mask of the dropped tokens."""
        return {"clip_cov/dropped": self._find_dropped(batch, measure)}

    def _find_dropped(self, batch: TokenBatch, measure: CovarianceMeasure) -> Tensor:
        draws, pool = self.rank(batch, measure.mean_advantage, measure.mean_logp)
        return pool & (draws >= measure.threshold)


@dataclass
class KlCovOptions:
    """Options of `"kl_cov"`."""

    fraction: Annotated[
        float, Setting("Share of the tokens that are pulled back; 0.0002 for 32B models.", "[0, 1]", neutral=0)
    ] = 0.002
    coef: Annotated[float, Setting("Weight of the penalty; 0 is GRPO without clipping.", "[0, inf)", neutral=0)] = 1.0


class KlCov(ByCovariance[ShapingConfig]):
    """KL-Cov, which penalises changes in the log-probabilities of the tokens with the largest covariance."""

    options_class = KlCovOptions
    options: KlCovOptions
    needs = SIGNS | ALL_TOKENS
    surrogate = UNCLIPPED

    def rank(self, batch: TokenBatch, mean_advantage: Tensor, mean_logp: Tensor) -> tuple[Tensor, Tensor]:
        """Return the covariances, and the mask of the tokens whose covariance is defined."""
        cov = covariance(batch, mean_advantage, mean_logp)
        return cov, cov > -torch.inf

    def bonus(self, batch: TokenBatch, measure: CovarianceMeasure) -> Float[Tensor, "B T"]:
        """Return - coef sign(lp - lq) / r for penalised tokens, and 0 for others.

        This gives the gradient of the penalty.
        """
        pull = (batch.logps.float() - batch.old_logps.float()).sign() / batch.ratio
        return torch.where(self._find_held(batch, measure), -self.options.coef * pull, 0.0)

    def marks(self, batch: TokenBatch, measure: CovarianceMeasure) -> dict[str, Bool[Tensor, "B T"]]:
        """Return the mask of the penalised tokens."""
        return {"kl_cov/held": self._find_held(batch, measure)}

    def _find_held(self, batch: TokenBatch, measure: CovarianceMeasure) -> Tensor:
        cov = covariance(batch, measure.mean_advantage, measure.mean_logp)
        threshold = measure.threshold
        # The threshold has a margin, because log-probabilities differ in their last bits from batch to batch.
        # If all advantages are equal, every covariance is 0 and no token is chosen.
        top = (cov >= threshold - self.tolerance * threshold.abs()) & (cov != 0)
        # A token whose log-probability has not changed gets no penalty. Two forward passes differ by rounding, which
        # must not decide the sign. A ratio without a finite inverse in float32 cannot be used.
        has_moved = (batch.logps.float() - batch.old_logps.float()).abs() > STILL
        if batch.is_first_step:
            has_moved = torch.zeros_like(has_moved)
        return top & has_moved & batch.ratio.isfinite() & batch.ratio.reciprocal().isfinite()


def covariance(batch: TokenBatch, mean_advantage: Tensor, mean_logp: Tensor) -> Tensor:
    """Return the covariances `[B, T]`, float32.

    The value is `-inf` if a token is masked or its log-probability is not finite.
    """
    product = (batch.advantages.float() - mean_advantage) * (batch.logps.float() - mean_logp)
    return torch.where(_find_valid(batch), product, -torch.inf)


def _find_valid(batch: TokenBatch) -> Tensor:
    return batch.mask.bool() & batch.logps.isfinite()
