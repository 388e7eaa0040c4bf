"""TRL's entropy bonus (as in A3C, arXiv 1602.01783) with a coefficient that `hold_entropy` can adjust.

    L = L_policy - c H,   H: mean entropy of a micro-batch's trained tokens, in nats

The advantages do not change. c > 0 raises the entropy, and c < 0 lowers it. With c = 0 the loss is TRL's without a
bonus, bit for bit. In the paper c is constant, and the result is sensitive to it. If c is too small it has no effect,
and if c is too large the entropy explodes. Skywork-OR1 (TRL's `use_adaptive_entropy`) changes c in fixed steps, up to
0.005. Here `hold_entropy` adjusts c, or c is constant.

The unit of c is advantage per nat of surprisal. At the upper bound of 0.2, a token that is five nats more surprising
than the average token gains as much as from an advantage of 1. REPO-R's zeta has the same unit and a fifth of the
effect. On the Countdown task, ln H rises by 0.08 per rollout and unit of zeta, and by 0.4 per rollout and unit of c
(commit 2a4bca8e, `experiments/results/claims/short_runs.json`). The controller's gain for c is therefore a fifth of
its gain for zeta.

Use this bonus if the completions of a group are often all correct or all incorrect. The bonus does not depend on
advantages, so it acts on such groups too.
"""

from dataclasses import dataclass
from typing import Annotated

from steer_trl.entropy.actuator import Control
from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper


@dataclass
class EntropyBonusOptions:
    """Options of `"entropy_bonus"`."""

    coef: Annotated[
        float,
        Setting(
            "c: weight of the mean entropy (nats) in the loss, TRL's entropy_coef; below 0 the entropy falls. "
            "hold_entropy moves it.",
            "[-0.2, 0.2]",
            needs={"hold_entropy": None},
        ),
    ] = 0.001


class EntropyBonus(Shaper[ShapingConfig]):
    """TRL's entropy bonus, whose coefficient is the strength of the method."""

    options_class = EntropyBonusOptions
    options: EntropyBonusOptions
    paper = PAPERS["1602.01783"]
    distinguishes_tokens = False
    control = Control(max_strength=0.2, gain=0.2, option="coef")

    def entropy_coef(self) -> float:
        """Return the coefficient c."""
        return self.strength
