"""Moving clip bounds, arXiv 2509.26114: clipping at the lower bound raises the entropy, at the upper one lowers it.

    A_hat = 0 where (A > 0, r > 1 + f e_high) or (A < 0, r < 1 - e_low / f); A elsewhere,   f = 1 + s

A is the advantage and r the ratio of the token's probability to that at rollout time. Clipping a bad token's ratio
from below keeps unlikely tokens alive. Clipping a good token's ratio from above restrains tokens that are becoming
likely. A strength s > 0 tightens the lower bound and widens the upper one, which raises the entropy. A strength s < 0
does the opposite, with f = 1 / (1 - s), and lowers it. At s = 0 the gradient is that of GRPO with e_low and e_high.
The paper sets the bounds. Letting `hold_entropy` move both of them by one factor is our addition. TRL's own clipping
is switched off, because unclipped ratios with this A_hat already have the gradient of the clipped loss. The method
assumes several optimizer steps per rollout. With a single step every ratio is 1, so the bounds have no effect. Use
moving bounds to control the entropy without token weights.
"""

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.options.needs import UNCLIPPED
from steer_trl.shaping.base import Control, Paper, Shaper
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.clipping import find_clipped


@dataclass
class ClipBoundsOptions:
    """The bounds at strength 0, and the strength."""

    epsilon_low: Annotated[float, Setting("e_low.", "(0, 1)")] = 0.2
    epsilon_high: Annotated[float, Setting("e_high.", "(0, inf)")] = 0.28
    strength: Annotated[float, Setting("s; hold_entropy moves it.", "[-3, 3]", needs={"hold_entropy": None})] = 1.0


class ClipBounds(Shaper[ShapingConfig]):
    """Clips ratios at bounds that move with the method's strength."""

    paper = Paper(
        "Clip-Low Increases Entropy and Clip-High Decreases Entropy in Reinforcement Learning of Large Language "
        "Models",
        "Jaesung R. Park and Junsu Kim and Gyeongman Kim and Jinyoung Jo and Sean Choi and Jaewoong Cho and "
        "Ernest K. Ryu",
        2025,
        "2509.26114",
    )
    surrogate = UNCLIPPED
    options_class = ClipBoundsOptions
    options: ClipBoundsOptions
    control = Control(max_strength=3.0, gain=3.0, option="strength")
    active = True

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest ratio that are not clipped."""
        factor = 1 + self.strength if self.strength >= 0 else 1 / (1 - self.strength)
        return 1 - min(self.options.epsilon_low / factor, 1.0), 1 + self.options.epsilon_high * factor

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 for clipped tokens, 1 for others."""
        low, high = find_clipped(batch.ratio, batch.advantages, *self.bounds())
        return (~(low | high)).float().expand(batch.logps.shape)
