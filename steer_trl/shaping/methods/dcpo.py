r"""DCPO, arXiv 2509.02333: clip bounds that are wide for unlikely tokens and narrow for likely ones.

    low  = 1/2 + 1/2 sqrt(max(1 - 4 e_low / q, 0)),   high = min(1/2 + 1/2 sqrt(1 + 4 e_high / q), 10)
    A_hat = 0 where (A > 0, r > high) or (A < 0, r < low) or (A < 0, r > 10); A elsewhere

q is a token's probability under the old policy, and r is its importance ratio. TRL's own clipping is switched off,
because unclipped ratios with this A_hat have the gradient of the clipped loss. The logged loss is not clipped either.
The shares of clipped tokens are logged as `dcpo/clipped_*`. The paper's smooth advantages, which standardise rewards
over all epochs of a prompt, are not implemented.
"""

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.options.needs import UNCLIPPED
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.clipping import find_clipped

HIGHEST = 10.0
TINY = 1e-30


@dataclass
class DcpoOptions:
    """Options of `"dcpo"`."""

    epsilon_low: Annotated[float, Setting("e_low: the released script's; the paper has 0.16.", "[0, inf)")] = 0.2
    epsilon_high: Annotated[float, Setting("e_high: the released script's. The paper analyses 0.2.", "[0, inf)")] = (
        0.28
    )


class Dcpo(Shaper[ShapingConfig]):
    """DCPO's clipping, implemented as token weights of 0 and 1."""

    options_class = DcpoOptions
    options: DcpoOptions
    paper = PAPERS["2509.02333"]
    surrogate = UNCLIPPED

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 for clipped tokens, 1 for others."""
        low, high = self._find_clipped(batch)
        return (~(low | high)).float()

    def marks(self, batch: TokenBatch, measure: None) -> dict[str, Bool[Tensor, "B T"]]:
        """Return the masks of the tokens that are clipped at the low and at the high bound."""
        low, high = self._find_clipped(batch)
        return {"dcpo/clipped_low": low, "dcpo/clipped_high": high}

    def bounds(self, old_probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper bound of the ratio for old probabilities in [0, 1]."""
        inverse = 4 / old_probabilities.clamp(min=TINY)
        low = 0.5 + 0.5 * (1 - self.options.epsilon_low * inverse).clamp(min=0).sqrt()
        high = 0.5 + 0.5 * (1 + self.options.epsilon_high * inverse).sqrt()
        return low, high.clamp(max=HIGHEST)

    def _find_clipped(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        low, high = self.bounds(batch.old_logps.float().exp())
        too_low, too_high = find_clipped(batch.ratio, batch.advantages, low, high)
        return too_low, too_high | ((batch.advantages < 0) & (batch.ratio > HIGHEST))
