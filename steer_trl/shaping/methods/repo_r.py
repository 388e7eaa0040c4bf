"""REPO-R, arXiv 2603.11682: token weights by surprisal and the sign of the advantage.

    A_hat = w A,   w = clip(1 - zeta ln pi, 0, w_max) for A > 0,   clip(1 + zeta ln pi, 0, w_max) for A < 0

zeta > 0 raises the entropy, and zeta < 0 lowers it. The authors double or halve zeta between rollouts. Here
`hold_entropy` adjusts it, or it is constant. The authors' weights have no upper bound, so one token with ln pi = -30
could outweigh thirty others. We added the bound w_max = 3. Use REPO-R to hold the entropy at a level.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.entropy.actuator import Control
from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import TokenBatch

MAX_WEIGHT = 3.0


@dataclass
class RepoROptions:
    """Options of `"repo_r"`."""

    zeta: Annotated[
        float,
        Setting(
            "zeta: weight per nat of surprisal; 0 is GRPO, below 0 the entropy falls. hold_entropy moves it.",
            "[-1, 1]",
            needs={"hold_entropy": None},
        ),
    ] = 0.05


class RepoR(Shaper[ShapingConfig]):
    """REPO-R's token weights. The strength of the method is zeta."""

    options_class = RepoROptions
    options: RepoROptions
    paper = PAPERS["2603.11682"]
    control = Control(max_strength=1.0, option="zeta")

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return the token weights w; 1 where the log-probability is not finite."""
        surprisals = -batch.logps.float()
        surprisals = torch.where(surprisals.isfinite(), surprisals, 0.0)
        return (1 + self.strength * surprisals * batch.advantages.sign()).clamp(0.0, MAX_WEIGHT)
