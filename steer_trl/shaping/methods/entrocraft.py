r"""Entrocraft, arXiv 2604.26326: above an entropy band only positive advantages count, below it only negative ones.

    m = [H > upper] - [H < lower]                   H is the mean entropy of the rollout's tokens, nats
    A_hat_i = A_i G / |S| if i is in S, else 0      S = {i in the group: m A_i >= 0}
    lower(s) = lower + (lower_end - lower) s        upper(s) = lower(s) + width

G is the number of scored completions in a group, and s is the share of the run that is done. Inside the band nothing
changes. An update on positive advantages lowers the entropy, and one on negative advantages raises it, so dropping the
others moves the entropy back into the band. Any advantages can be filtered. If a method has given the tokens of a
completion different advantages, the sign of their sum counts.

This is Algorithm 1 with equation 5, read in the text of the paper. The authors' code (lblaoke/entrocraft) departs from
it in two ways. Outside the band its advantages are the rewards, 1 or -1, without a baseline, so a group that is all
correct or all incorrect carries a signal there. And it does not divide by |S|: dropped completions count in the mean.
The defaults are those of its reference script for Qwen3-4B-Base, which also has a KL penalty of 0.001. In the long
runs of the paper the band falls to 0.1 and 0.2. Its levels are nats of that model, and another one needs its own:
`rollout_entropy` in the first steps of a run is a guide. Use Entrocraft if the entropy should follow a line without
any weights.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from steer_trl.options.base import Setting, ShapingConfig
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import Rollout
from steer_trl.support.validation import read_from_state


@dataclass
class EntrocraftOptions:
    """Options of `"entrocraft"`."""

    lower: Annotated[float, Setting("The band's lower bound at the start, nats.", "[0, inf)")] = 0.6
    lower_end: Annotated[float, Setting("The band's lower bound at the end, nats.", "[0, inf)")] = 0.4
    width: Annotated[float, Setting("The upper bound less the lower one, nats.", "[0, inf)")] = 0.1


class Entrocraft(Shaper[ShapingConfig]):
    """Entrocraft, which drops completions by the sign of their advantage while the entropy is outside a band."""

    options_class = EntrocraftOptions
    options: EntrocraftOptions
    paper = PAPERS["2604.26326"]
    reads = ("mean_entropy", "rewards")
    distinguishes_tokens = False

    def __init__(self, args: ShapingConfig) -> None:
        super().__init__(args)
        self.lower = self.options.lower
        self.direction = 0

    @property
    def upper(self) -> float:
        """The upper bound of the band, nats."""
        return self.lower + self.options.width

    def on_rollout(self, entropy: float) -> None:
        """Move the band, and find the direction m in which the entropy has left it."""
        start = self.options.lower
        self.lower = start + (self.options.lower_end - start) * self.progress
        self.direction = int(entropy > self.upper) - int(entropy < self.lower)

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return G / |S| for the completions in S, and 0 for the others; 1 for a completion without a reward."""
        total = (rollout.advantages * rollout.responses).sum(1)
        is_scored = ~rollout.rewards.isnan().view(-1, rollout.num_generations)
        is_kept = is_scored & (self.direction * total >= 0).view(-1, rollout.num_generations)
        factor = is_scored.sum(1, keepdim=True) / is_kept.sum(1, keepdim=True).clamp(min=1)
        return torch.where(is_scored, factor * is_kept, 1.0).flatten()

    def metrics(self) -> dict[str, float]:
        """Return the bounds of the band, in nats per token."""
        return {"entrocraft/lower": self.lower, "entrocraft/upper": self.upper}

    def state_dict(self) -> dict[str, Any]:
        """Return the lower bound and the direction of the current rollout."""
        return {"lower": self.lower, "direction": self.direction}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`]. Raises `ValueError` if a value is missing or invalid."""
        self.lower = read_from_state(state, "lower", lambda lower: lower >= 0, "at least 0")
        self.direction = read_from_state(state, "direction", lambda m: m in (-1, 0, 1), "-1, 0 or 1")
