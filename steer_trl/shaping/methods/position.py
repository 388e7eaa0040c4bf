"""Position-based shaping, arXiv 2508.02260: the later a token, the larger its advantage.

    A_hat_it = A_i + sign(A_i) gamma sigmoid(rho_it),   rho_it = t / L_i in (0, 1],  t = 1, 2, ...

t and L_i count the tokens that the policy wrote; sign(0) = 0. gamma = 0.1 could not be verified, nor that rho has no
factor; so the sigmoid runs from 0.5 to 0.73 only. It assumes that what decides an answer is near its end. Its sibling
for whole completions is `"ppl"`.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import ShapingConfig, option
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.methods.ppl import DECOMPOSING


@dataclass
class PositionOptions(ShapingConfig):
    """Settings of `"position"`."""

    position_gamma: float = option(0.1, "Size of the bonus; 0 is GRPO.", "[0, inf)")


class Position(Shaper[PositionOptions]):
    """Advantages with a bonus that grows along the completion."""

    options = PositionOptions
    paper = DECOMPOSING
    by_group = True

    @property
    def active(self) -> bool:
        """False for gamma = 0."""
        return self.args.position_gamma > 0

    def rollout_bonus(self, rollout: Rollout) -> Float[Tensor, "N T"]:
        """Return sign(A) gamma sigmoid(rho) `[N, T]`."""
        count = rollout.responses.cumsum(1, dtype=torch.int32)  # CUDA has no deterministic cumsum of floats
        position = count / rollout.lengths.clamp(min=1).unsqueeze(1)
        return rollout.advantages.sign() * (self.args.position_gamma * torch.sigmoid(position))
