"""TRL's KL penalty (as in arXiv 1909.08593) with a coefficient that `hold_entropy` can adjust.

    L = L_policy + beta KL(pi, pi_start),   KL: TRL's estimate, averaged as the policy's loss is

The advantages do not change. The penalty pulls each token back to its probability under the initial model, or under
the model without its adapter. So it raises the entropy of a policy that has become more certain than the initial
model, and never above that of the initial model. The paper adjusts beta to keep the KL at a target. Here
`hold_entropy` adjusts it to keep the entropy at one, or beta is constant.

While beta is 0, the loss is GRPO's bit for bit, and the reference model makes no pass. Otherwise it makes one over
each rollout. The model itself stays in memory. An evaluation's loss has no penalty.

Gain and bound: if the policy is the initial model at a temperature tau < 1, then ln(pi / pi_start) is (1 - tau) ln pi
plus a constant, so the penalty acts as an entropy bonus with c = (1 - tau) beta. Softmax distributions lose half of
their entropy at 1 - tau = 0.33 to 0.48, 35 % at 0.22 to 0.33, 20 % at 0.12 to 0.18, and 10 % at 0.06 to 0.09. A unit
of REPO-R's zeta has a fifth of the effect of a unit of c (`entropy_bonus.py`). Between the levels 0.5 and 0.8, a unit
of beta therefore has 0.6 to 2.4 times the effect of a unit of zeta, so beta has the gain and the bound of zeta. With
them, `tests/entropy/test_kl_plants.py` holds synthetic policies. At a level above 0.8 the policy hardly differs from
the initial model, and beta may not suffice at its bound.
"""

from dataclasses import dataclass
from typing import Annotated

from steer_trl.entropy.actuator import Control
from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper


@dataclass
class KlOptions:
    """Options of `"kl"`."""

    coef: Annotated[
        float,
        Setting(
            "beta: weight of the KL divergence from the initial model (nats) in the loss. hold_entropy moves it.",
            "[0, 1]",
            needs={"hold_entropy": None},
        ),
    ] = 0.001


class Kl(Shaper[ShapingConfig]):
    """TRL's KL penalty, whose coefficient is the strength of the method."""

    options_class = KlOptions
    options: KlOptions
    paper = PAPERS["1909.08593"]
    distinguishes_tokens = False
    control = Control(max_strength=1.0, option="coef")

    def kl_coef(self) -> float:
        """Return the coefficient beta."""
        return self.strength
