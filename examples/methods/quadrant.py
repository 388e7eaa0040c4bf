"""STEER's experiment with four quadrants of tokens (arXiv 2510.10150, section 3.2, appendix D.2, figures 6, 22, 23).

    I   q > 0.8, A > 0   exploitation        II   q < 0.2, A > 0   exploration
    IV  q > 0.8, A < 0   error correction    III  q < 0.2, A < 0   suppression

q is the token's probability at rollout time (the paper says "generation probability"), and A its advantage. A random
share of a quadrant's tokens is masked (weight 0) or doubled (weight 2). Masking I or III or doubling II or IV raises
the entropy; the opposite action on each lowers it. Figures 6 and 22 start from clipping at 0.2 and 0.2, figure 23 from
0.2 and 0.28. Use the experiment to see which tokens' updates lower your model's entropy. It is not a method to train
with.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.options.needs import TOKEN_RATIOS
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.methods.steer import Steer

HIGH, LOW = 0.8, 0.2


@dataclass
class QuadrantOptions:
    """A quadrant, and what happens to a share of its tokens."""

    quadrant: Annotated[str, Setting("The quadrant.", choices=("I", "II", "III", "IV"))] = "I"
    action: Annotated[str, Setting("'mask' drops tokens, 'double' doubles them.", choices=("mask", "double"))] = "mask"
    fraction: Annotated[float, Setting("Share of the tokens; 0.05 to 0.2 in the paper.", "[0, 1]", neutral=0)] = 0.1


class Quadrant(Shaper[ShapingConfig]):
    """Gives randomly drawn tokens of a quadrant a weight of 0 or 2."""

    paper = Steer.paper
    reads = ("draws",)
    options_class = QuadrantOptions
    options: QuadrantOptions
    needs = TOKEN_RATIOS

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 or 2 for the drawn tokens, 1 for the others."""
        return torch.where(self._drawn(batch), 0.0 if self.options.action == "mask" else 2.0, 1.0)

    def marks(self, batch: TokenBatch, measure: None) -> dict[str, Bool[Tensor, "B T"]]:
        """Return a mask `[B, T]` of the drawn tokens, for the token log."""
        return {"quadrant/drawn": self._drawn(batch)}

    def _drawn(self, batch: TokenBatch) -> Tensor:
        probability, advantage = batch.old_logps.float().exp(), batch.advantages
        likely = probability > HIGH if self.options.quadrant in ("I", "IV") else probability < LOW
        right = advantage > 0 if self.options.quadrant in ("I", "II") else advantage < 0
        return likely & right & (batch.draws < self.options.fraction)
