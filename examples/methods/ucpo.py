"""UCPO, arXiv 2605.00365: shifts advantage from a group's likely correct completions to its unlikely ones.

    A_hat_i = A_i ((1 - tau) + tau n v_i / sum_j v_j),   v_i = 1 / q_i,   q = softmax of (1 / L_i) sum_t lq_it

A_i is the advantage of completion i. The sum and the softmax are over the n correct completions of the group. lq_it
are the log-probabilities of the L_i tokens of completion i under the policy that wrote the rollout. Incorrect
completions keep their advantages. If rewards have only two values, all correct completions of a group have the same
advantage, and the sum of their advantages stays the same. As in the authors' code, q is at least 1e-6, and their runs
have tau = 0.2. We have read only the paper's abstract; that q depends on the mean log-probability, and not on the sum,
is taken from the code. GRPO does not care which correct answers it makes likely, and makes a few of them even
likelier; with UCPO, rare ones catch up. Use UCPO to raise pass@k if groups have several correct completions. With at
most one correct completion in each group, UCPO is GRPO.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import CorrectnessSettings, Setting
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.scores import is_right

LEAST_SHARE = 1e-6


@dataclass
class UcpoOptions:
    """The exponent of UCPO."""

    tau: Annotated[
        float, Setting("0: equal advantages (GRPO). 1: advantages inverse to the likelihood.", "[0, 1]", neutral=0)
    ] = 0.2


class Ucpo(Shaper[CorrectnessSettings]):
    """Scales the advantages of correct completions so that less likely ones get more."""

    settings_class = CorrectnessSettings
    options_class = UcpoOptions
    options: UcpoOptions
    paper = Paper(
        "Uniform-Correct Policy Optimization: Breaking RLVR's Indifference to Diversity",
        "Anamika Lochab and Bolian Li and Ruqi Zhang",
        2026,
        "2605.00365",
    )
    reads = ("rewards", "correctness", "logps")
    distinguishes_tokens = False

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return a factor for each completion; 1 for incorrect ones and those without a finite log-probability."""
        likelihood = rollout.mean_of_scored(rollout.logps).view(-1, rollout.num_generations)
        correct = is_right(rollout, self.args).view_as(likelihood) & likelihood.isfinite()
        log_q = likelihood.masked_fill(~correct, -torch.inf).log_softmax(1).clamp(min=math.log(LEAST_SHARE))
        share = (-log_q).masked_fill(~correct, -torch.inf).softmax(1)  # is NaN in groups without a correct completion
        factor = 1 - self.options.tau + self.options.tau * correct.sum(1, keepdim=True) * share
        return torch.where(correct, factor, 1.0).flatten()
