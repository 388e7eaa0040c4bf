"""UCPO, arXiv 2605.00365: what a group's correct completions gain is spread so that the unlikely ones gain more.

    A_hat_i = A_i ((1 - tau) + tau n v_i / sum_j v_j),   v_i = 1 / q_i,   q = softmax of (1 / L_i) sum_t lq_it

over the n correct completions of the group; incorrect ones keep their advantage. With rewards that are either correct
or incorrect the correct ones have one advantage, and its sum over them is kept. q of the policy that wrote the
rollout, at least 1e-6, as in the authors' code, whose runs have tau = 0.2. The paper was read in its abstract only:
that q is of the mean log-probability, and not of the sum, is the code's. GRPO is indifferent to which correct answers
it makes likely, and makes a few of them likelier still; here rare ones catch up. Use UCPO to raise pass@k if groups
have several correct completions. With at most one correct completion in each group, UCPO is GRPO.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import CorrectnessOptions
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import is_right
from steer_trl.validation import check_interval

LEAST_SHARE = 1e-6


@dataclass
class Settings:
    """`shaping_options`: how far advantages go from equal (0, GRPO) to inverse to the likelihood (1)."""

    tau: float = 0.2


class Ucpo(Shaper[CorrectnessOptions]):
    """Advantages of correct completions by inverse likelihood."""

    options = CorrectnessOptions
    paper = Paper(
        "Uniform-Correct Policy Optimization: Breaking RLVR's Indifference to Diversity",
        "Anamika Lochab and Bolian Li and Ruqi Zhang",
        2026,
        "2605.00365",
    )
    reads = ("rewards", "logps")
    per_token = False

    def __init__(self, args: CorrectnessOptions) -> None:
        super().__init__(args)
        self.tau = Settings(**args.shaping_options or {}).tau

    @classmethod
    def complaints(cls, args: CorrectnessOptions) -> list[str]:
        """Refuse what is not between both."""
        return check_interval("tau", Settings(**args.shaping_options or {}).tau, "[0, 1]")

    @property
    def active(self) -> bool:
        """False for tau = 0."""
        return self.tau > 0

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the factor of each correct completion; 1 for others, and where it has no log-probability."""
        likelihood = rollout.mean_of_scored(rollout.logps).view(-1, rollout.num_generations)
        correct = is_right(rollout, self.args).view_as(likelihood) & likelihood.isfinite()
        log_q = likelihood.masked_fill(~correct, -torch.inf).log_softmax(1).clamp(min=math.log(LEAST_SHARE))
        share = (-log_q).masked_fill(~correct, -torch.inf).softmax(1)  # NaN in a group without a correct completion
        factor = 1 - self.tau + self.tau * correct.sum(1, keepdim=True) * share
        return torch.where(correct, factor, 1.0).flatten()
