r"""Token weights by the exact entropy change, to raise or lower the entropy.

    A_hat = w A,   w = 1 + strength tanh(dH / scale),   dH = - I_clip r A Phi

dH is the first-order change that the token's own update makes to the entropy of its distribution, up to a factor of
the learning rate. A positive strength raises the entropy, a negative one lowers it, and the weights stay in [0, 2].
The scale is the 0.9-quantile of |dH| over the tokens of the optimizer step that change the entropy at all, so no
single token determines it. The method needs an extra pass of the LM head after every forward pass. Use
`entropy_change` to hold or lower the entropy, and `steer` to damp changes of both signs. The method is not from a
paper. I_clip, r and Phi are defined in `functional.py`.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.entropy.actuator import Control
from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping import order_statistics
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.order_statistics import Reduce

QUANTILE = 0.9
"""The scale is this quantile of |dH|. At this |dH|, a weight differs from 1 by three quarters of the strength."""


@dataclass
class EntropyChangeOptions:
    """Options of `"entropy_change"`."""

    strength: Annotated[
        float,
        Setting(
            "Largest distance of a weight from 1. Above 0, tokens that raise the entropy get more weight; below 0, "
            "they get less.",
            "[-1, 1]",
            needs={"hold_entropy": None},
        ),
    ] = 0.5


class EntropyChange(Shaper[ShapingConfig]):
    """Token weights that grow with the entropy change that the token's update causes.

    A weight differs from 1 by at most the strength.
    """

    options_class = EntropyChangeOptions
    options: EntropyChangeOptions
    reads = ("sensitivities",)
    control = Control(max_strength=1.0, option="strength")

    def measure(self, batch: TokenBatch, reduce: Reduce) -> Tensor:
        """Return the scale, a quantile of |dH|; `inf` if no token changes the entropy."""
        size = self._change(batch).abs()
        return order_statistics.quantile(size, batch.mask.bool() & (size > 0), QUANTILE, reduce)

    def weights(self, batch: TokenBatch, measure: Tensor) -> Float[Tensor, "B T"]:
        """Return the token weights 1 + strength tanh(dH / scale)."""
        return 1 + self.strength * torch.tanh(self._change(batch) / measure)

    def _change(self, batch: TokenBatch) -> Tensor:
        """Return the entropy change dH of each token; 0 if it is unknown."""
        change = batch.entropy_change(exact=True)
        return torch.where(change.isfinite(), change, 0.0)
