"""TRL's entropy bonus (as in A3C, 1602.01783) with a coefficient that moves.

    L = L_policy - c H,   H: mean entropy of a micro-batch's trained tokens, in nats

The advantages are TRL's. c > 0 keeps entropy, c < 0 spends it; at 0 the loss is TRL's without a bonus, bit for bit.
The paper's c is constant, and sensitive: too small does nothing, too large explodes. Skywork-OR1 (TRL's
`use_adaptive_entropy`) moves it by fixed steps, up to 0.005. Here `hold_entropy` moves it, or it is constant.

c is in units of advantage per nat of surprisal. At its upper bound of 0.2, a token five nats rarer than usual gains as
much as a right answer. REPO-R's zeta has the same unit and a fifth of the effect: on the laptop task ln H rises by
0.08 per rollout and unit of zeta, and by 0.4 per rollout and unit of c (`experiments/results/claims/short_runs.json`).
The controller's gain for c is therefore a fifth of its gain for zeta.

Choose it if groups are often all right or all wrong. The bonus does not depend on advantages, so it acts there too.
"""

from dataclasses import dataclass
from typing import Annotated

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping.base import PAPERS, Control, Shaper


@dataclass
class EntropyBonusOptions(ShapingConfig):
    """Settings of `"entropy_bonus"`."""

    entropy_bonus_coef: Annotated[
        float,
        Setting(
            "c: how much a nat of mean entropy is worth in the loss, TRL's entropy_coef; below 0 entropy is spent. "
            "hold_entropy moves it.",
            "[-0.2, 0.2]",
            needs={"hold_entropy": None},
        ),
    ] = 0.001


class EntropyBonus(Shaper[EntropyBonusOptions]):
    """TRL's entropy bonus; its strength is the coefficient."""

    options = EntropyBonusOptions
    paper = PAPERS["1602.01783"]
    per_token = False
    control = Control(max_strength=0.2, gain=0.2, setting="entropy_bonus_coef")

    def entropy_coef(self) -> float:
        """Return the coefficient c."""
        return self.strength
