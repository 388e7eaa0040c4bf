"""Forking tokens, arXiv 2506.01939, as in the authors' code: train on the 20 % most uncertain tokens only.

    A_hat = A N / |S| on S = the top `fraction` of the N trained tokens by entropy;   0 on other tokens

The factor N / |S| makes the loss a mean over S, as in the authors' code. The paper's objective averages over all
tokens, without the factor, as TRL does with `top_entropy_quantile=0.2`. The method assumes a loss that averages over
tokens. S is chosen among the tokens of the optimizer step. In the authors' code it is chosen among those of one
micro-batch on one GPU. The authors recommend the method for models with 14B or more parameters.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.options.needs import TOKEN_RATIOS, Need
from steer_trl.options.trl import LOSSES
from steer_trl.shaping import order_statistics
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.order_statistics import Reduce


@dataclass
class ForkTokensOptions:
    """Options of `"fork_tokens"`."""

    fraction: Annotated[float, Setting("Share of the tokens trained on; 1 is GRPO.", "(0, 1]", neutral=1)] = 0.2


class ForkMeasure(NamedTuple):
    """The smallest entropy of the tokens in S (nats), and the factor N / |S|; both float32."""

    threshold: Tensor
    factor: Tensor


class ForkTokens(Shaper[ShapingConfig]):
    """Forking tokens: gives a weight of 0 to all but the most uncertain tokens."""

    options_class = ForkTokensOptions
    options: ForkTokensOptions
    paper = PAPERS["2506.01939"]
    needs = TOKEN_RATIOS | {
        "loss_type": Need(
            tuple(name for name, loss in LOSSES.items() if loss.averages_over == "completions"),
            "its factor turns a mean over all tokens into one over the chosen, and this loss has no such mean",
            refused=True,
        ),
        "top_entropy_quantile": Need((1.0,), "both choose tokens by entropy"),
    }

    def measure(self, batch: TokenBatch, reduce: Reduce) -> ForkMeasure:
        """Return the smallest entropy of the tokens in S, and the factor N / |S|."""
        valid = self._valid(batch)
        entropies = batch.entropies.float()
        threshold = order_statistics.top_threshold(entropies, valid, self.options.fraction, reduce)
        chosen = valid & (entropies >= threshold - self.tolerance)
        total, chosen = reduce(torch.stack([valid.sum(), chosen.sum()]), "sum")
        return ForkMeasure(threshold, total / chosen.clamp(min=1))

    def weights(self, batch: TokenBatch, measure: ForkMeasure) -> Float[Tensor, "B T"]:
        """Return N / |S| for the tokens in S, and 0 for the others.

        S holds the trained tokens with the highest entropy. Masked tokens, and tokens without a finite entropy, have
        the weight 1.
        """
        is_fork = batch.entropies.float() >= measure.threshold - self.tolerance
        weights = torch.where(is_fork, measure.factor, 0.0)
        return torch.where(self._valid(batch), weights, 1.0)

    @staticmethod
    def _valid(batch: TokenBatch) -> Tensor:
        return batch.mask.bool() & batch.entropies.isfinite()
