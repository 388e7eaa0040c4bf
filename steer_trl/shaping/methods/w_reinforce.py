"""W-REINFORCE, PSR and NSR, arXiv 2506.01347: weights for correct and incorrect answers.

    w_reinforce   A_hat_i = lambda if correct, -1 if incorrect              lambda = 0.1
    psr           A_hat_i = 1 if correct, and incorrect answers are dropped
    nsr           A_hat_i = -1 if incorrect, and correct answers are dropped

There is no group baseline, so a group that is all correct or all incorrect carries a learning signal too. If answers
are dropped, the loss must be a mean over the kept ones, so the advantages are multiplied by all / kept. Both are
counted over the whole rollout in the unit that the loss averages over, tokens or completions. NSR keeps the entropy
up, PSR lets it fall; W-REINFORCE is the compromise the authors recommend.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import CorrectnessSettings, Setting
from steer_trl.options.needs import OWN_OR_UNSCALED_ADVANTAGES
from steer_trl.options.trl import TOKEN_MEAN_LOSSES
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.shaping.options import NoOptions
from steer_trl.shaping.scores import deciding_rewards, is_right


@dataclass
class WReinforceOptions:
    """Options of `"w_reinforce"`."""

    positive: Annotated[float, Setting("lambda: weight of correct answers; incorrect ones have 1.", "[0, inf)")] = 0.1


class WReinforce(Shaper[CorrectnessSettings]):
    """Weighted REINFORCE."""

    settings_class = CorrectnessSettings
    options_class: ClassVar[type] = WReinforceOptions
    paper = PAPERS["2506.01347"]
    reads: tuple[str, ...] = ("correctness",)
    distinguishes_tokens = False
    needs = OWN_OR_UNSCALED_ADVANTAGES
    keeps: ClassVar[tuple[bool, ...]] = (True, False)

    @property
    def positive(self) -> float:
        """The advantage of a correct answer."""
        return self.options.positive

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the advantage of each completion; 0 if it is dropped or its reward is missing."""
        scored = ~deciding_rewards(rollout).isnan()
        is_correct = is_right(rollout, self.args)
        is_kept = scored & torch.stack([is_correct == outcome for outcome in self.keeps]).any(0)
        trained = rollout.mask.float().sum(1)
        counts = trained if self.args.loss_type in TOKEN_MEAN_LOSSES else torch.ones_like(trained)
        weights = torch.where(is_correct, self.positive, -1.0)
        if len(self.keeps) == 1:
            # The loss counts a truncated completion that it leaves out, which is not among those that it trains on.
            is_trained = is_kept & (trained > 0)
            weights = weights * (counts.sum() / (counts * is_trained).sum().clamp(min=1))
        return torch.where(is_kept, weights, 0.0)


class Psr(WReinforce):
    """Positive sample reinforcement, which drops incorrect answers."""

    options_class = NoOptions
    # The factor all / kept is computed over the completions of all ranks.
    reads = ("correctness", "all_ranks")
    keeps = (True,)
    positive = 1.0


class Nsr(WReinforce):
    """Negative sample reinforcement, which drops correct answers."""

    options_class = NoOptions
    reads = ("correctness", "all_ranks")
    keeps = (False,)
    # Without effect, because correct answers are dropped.
    positive = 1.0
