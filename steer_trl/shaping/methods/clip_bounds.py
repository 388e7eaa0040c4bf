"""Clip bounds that move: the lower one keeps the entropy up and the upper one lets it fall, arXiv 2509.26114.

    A_hat = 0 where (A > 0, r > 1 + f e_high) or (A < 0, r < 1 - e_low / f); A elsewhere,   f = 1 + s

Clipping a bad token's ratio from below keeps unlikely tokens alive, and clipping a good token's from above holds back
those that are becoming likely. So s > 0 tightens the lower bound and widens the upper one, and the entropy is kept;
below 0 the other way round, with f = 1 / (1 - s). At 0 the gradient is that of GRPO with e_low and e_high. The paper
sets the bounds; that `hold_entropy` moves them, both by one factor, is ours. TRL's own clipping is switched off:
unclipped ratios with this A_hat have the gradient of the clipped loss. It assumes several optimizer steps per rollout:
with one no ratio has left 1, and the bounds have no authority. Choose it to leave the weights of all tokens alone.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from steer_trl.functional.clipping import clipped
from steer_trl.options.base import ShapingConfig, option
from steer_trl.options.conflicts import UNCLIPPED, idle_conflicts
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import TokenBatch


@dataclass
class ClipBoundsOptions(ShapingConfig):
    """Settings of `"clip_bounds"`."""

    clip_bounds_epsilon_low: float = option(0.2, "e_low: distance of the lower bound from 1 at strength 0.", "(0, 1)")
    clip_bounds_epsilon_high: float = option(
        0.28, "e_high: distance of the upper bound from 1 at strength 0.", "(0, inf)"
    )
    clip_bounds_strength: float = option(
        1.0,
        "s: e_high is multiplied by 1 + s and e_low divided by it, which keeps entropy; below 0 the other way round. "
        "hold_entropy moves it.",
        "[-3, 3]",
    )


class ClipBounds(Shaper[ClipBoundsOptions]):
    """TRL's clipping with bounds that its strength moves."""

    options = ClipBoundsOptions
    paper = Paper(
        "Clip-Low Increases Entropy and Clip-High Decreases Entropy in Reinforcement Learning of Large Language "
        "Models",
        "Jaesung R. Park and Junsu Kim and Gyeongman Kim and Jinyoung Jo and Sean Choi and Jaewoong Cho and "
        "Ernest K. Ryu",
        2025,
        "2509.26114",
    )
    surrogate = UNCLIPPED
    max_strength = 3.0
    strength_gain = 3.0

    def __init__(self, args: ClipBoundsOptions) -> None:
        super().__init__(args)
        self.strength = args.clip_bounds_strength

    @classmethod
    def conflicts(cls, args: ClipBoundsOptions) -> list[str]:
        """Refuse a strength of one's own where it is moved."""
        held = args.hold_entropy is not None, "hold_entropy", "the regulator sets it"
        return idle_conflicts(args, [("clip_bounds_strength", *held)])

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest ratio that is not clipped."""
        factor = 1 + self.strength if self.strength >= 0 else 1 / (1 - self.strength)
        return 1 - min(
            self.args.clip_bounds_epsilon_low / factor, 1.0
        ), 1 + self.args.clip_bounds_epsilon_high * factor

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 for clipped tokens, 1 for others."""
        low, high = clipped(batch.ratio, batch.advantages, *self.bounds())
        return (~(low | high)).float().expand(batch.logps.shape)
