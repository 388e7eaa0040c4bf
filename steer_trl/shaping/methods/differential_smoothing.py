r"""Differential Smoothing (DS-GRPO), arXiv 2511.19942: a correct answer is worth more, the less likely it was.

    A_hat_i = A_i - gamma   ln q(y_i)   if correct                  ln q(y_i) = sum_t lq_it, nats
              A_i + gamma_n ln q(y_i)   otherwise                   gamma_n = 0 leaves incorrect answers as they are

lq is a token's log-probability under the policy that generated it. The paper shows that a policy gradient narrows the
distribution of the correct answers only: the likely ones are drawn more often, and each of them is raised by more. So
the term that widens belongs to correct answers, and one that narrows may be added to the incorrect ones. The term
comes after the group's scores, so a group whose completions are all correct carries a learning signal. Its size grows
with the length of the answer, and so does gamma's effect.

The formula is in two independent third-party accounts of the paper (its equations 4 and 6), which agree. In the
paper's theory ln q is that of the initial model. In its experiments it is that of the policy that generated the
rollout, as here. Not verified are the authors' gamma and gamma_n, and whether they divide ln q by the length. The
default of gamma is ours: 0.15 for an answer of 500 tokens with a surprisal of 0.3 nats each. Their code was not found.
Use the method if pass@k matters and several correct answers exist for each prompt.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import CorrectnessSettings, Setting
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import deciding_rewards, is_right


@dataclass
class DifferentialSmoothingOptions:
    """Options of `"differential_smoothing"`."""

    gamma: Annotated[float, Setting("gamma: advantage per nat of surprisal of a correct answer.", "[0, inf)")] = 1e-3
    gamma_incorrect: Annotated[
        float, Setting("gamma_n: what an incorrect answer loses per nat of its surprisal.", "[0, inf)")
    ] = 0.0


class DifferentialSmoothing(Shaper[CorrectnessSettings]):
    """Advantages that favour unlikely correct answers."""

    settings_class = CorrectnessSettings
    options_class = DifferentialSmoothingOptions
    options: DifferentialSmoothingOptions
    paper = PAPERS["2511.19942"]
    reads = ("correctness", "logps")
    distinguishes_tokens = False

    @property
    def active(self) -> bool:
        """False if both factors are 0."""
        return self.options.gamma > 0 or self.options.gamma_incorrect > 0

    def rollout_bonus(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the bonus of each completion; 0 if its reward is missing. Tokens without a number are left out."""
        assert rollout.logps is not None
        counts = rollout.responses.bool() & rollout.logps.isfinite()
        surprisal = -torch.where(counts, rollout.logps.float(), 0.0).sum(1)
        is_correct = is_right(rollout, self.args)
        gamma = self.options.gamma
        bonus = torch.where(is_correct, gamma, -self.options.gamma_incorrect) * surprisal
        return torch.where(deciding_rewards(rollout).isnan(), 0.0, bonus)
