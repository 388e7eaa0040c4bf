"""TRL's entropy bonus with a coefficient that moves: the policy is rewarded for its entropy, as in A3C, 1602.01783.

    L = L_policy - c H,   H: mean entropy of a micro-batch's trained tokens, in nats

The advantages stay TRL's. c > 0 keeps entropy, c < 0 spends it; at 0 the loss is TRL's without a bonus, bit for bit,
and so is the log. The paper's c is constant, and sensitive: too small does nothing, too large explodes. Skywork-OR1
(TRL's `use_adaptive_entropy`) moves it by fixed steps; here `hold_entropy` does, or it stays.

The gradient of c H is that of an advantage of c (-ln pi - H) on the tokens that the policy would draw. So c is an
advantage per nat of surprisal, and may be at most 0.2: a token five nats rarer than usual is then worth as much as a
right answer. REPO-R's zeta has the same unit, but acts only where rewards differ, and on the tokens drawn: on the
laptop task ln H rises by 0.08 per rollout and unit of zeta, and by 0.4 per unit of c (`docs/claims/short_runs.json`).
Hence a fifth of zeta's gain, with which the loop acts as strongly. Skywork-OR1 bounds its own at 0.005 on large
models, where c may act more strongly still.

Choose it where groups are often all right or all wrong: nothing is multiplied by an advantage, so it acts there too.
"""

from dataclasses import dataclass

from steer_trl.options.base import ShapingConfig, option
from steer_trl.shaping.base import PAPERS, Shaper


@dataclass
class EntropyBonusOptions(ShapingConfig):
    """Settings of `"entropy_bonus"`."""

    entropy_bonus_coef: float = option(
        0.001,
        "c: how much a nat of mean entropy is worth in the loss, TRL's entropy_coef; below 0 entropy is spent. "
        "hold_entropy moves it.",
        "[-0.2, 0.2]",
        needs={"hold_entropy": None},
    )


class EntropyBonus(Shaper[EntropyBonusOptions]):
    """TRL's entropy bonus; its strength is the coefficient."""

    options = EntropyBonusOptions
    paper = PAPERS["1602.01783"]
    per_token = False
    max_strength = 0.2
    strength_gain = 0.2

    def __init__(self, args: EntropyBonusOptions) -> None:
        super().__init__(args)
        self.strength = args.entropy_bonus_coef

    @property
    def active(self) -> bool:
        """False for c = 0."""
        return self.strength != 0

    def entropy_coef(self) -> float:
        """Return c."""
        return self.strength
