r"""DCPO, arXiv 2509.02333: clip bounds that are wide for unlikely tokens and narrow for likely ones.

    low  = 1/2 + 1/2 sqrt(max(1 - 4 e_low / q, 0)),   high = min(1/2 + 1/2 sqrt(1 + 4 e_high / q), 10)
    A_hat = 0 where (A > 0, r > high) or (A < 0, r < low) or (A < 0, r > 10); A elsewhere

q is the old probability. TRL's own clipping is switched off: unclipped ratios with this A_hat have the gradient of the
clipped loss. The loss that is logged is then unclipped, and TRL's clip ratios are 0; `dcpo/clipped_*` count what is
clipped. `dcpo_smooth` adds the paper's smooth advantages: each prompt remembers its rewards of earlier epochs,

    S1 = (i-1)/i A_new + 1/i A_tot,   S2 = 1/i A_new + (i-1)/i A_tot,   A_hat = the smaller of both in size

with A_new and A_tot the z-scores by the present and by all i groups of the prompt. In a first epoch that is GRPO's.
Prompts are identified by their text, so it cannot be combined with images or environments.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.functional.clipping import clipped
from steer_trl.options.base import ShapingConfig, option
from steer_trl.options.needs import OWN_ADVANTAGES, UNCLIPPED, unmet
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout, TokenBatch
from steer_trl.shaping.scores import standardized
from steer_trl.validation import from_state

EPS = 1e-6
HIGHEST = 10.0
TINY = 1e-30


@dataclass
class DcpoOptions(ShapingConfig):
    """Settings of `"dcpo"`."""

    dcpo_epsilon_low: float = option(0.2, "e_low: the released script's; the paper has 0.16.", "[0, inf)")
    dcpo_epsilon_high: float = option(0.28, "e_high: the released script's. The paper analyses 0.2.", "[0, inf)")
    dcpo_smooth: bool = option(False, "Standardise rewards over all epochs of a prompt (SAS).")


class Dcpo(Shaper[DcpoOptions]):
    """DCPO's clipping, and its smooth advantages."""

    options = DcpoOptions
    paper = Paper(
        "DCPO: Dynamic Clipping Policy Optimization",
        "Shihui Yang and Chengfeng Dou and Peidong Guo and Kai Lu and Qiang Ju and Fei Deng and Rihui Xin",
        2025,
        "2509.02333",
    )
    surrogate = UNCLIPPED
    reads = ("rewards", "prompts")

    def __init__(self, args: DcpoOptions) -> None:
        super().__init__(args)
        self.seen: dict[str, list[float]] = {}
        """Of each prompt: groups seen, mean and population variance of their rewards."""

    @classmethod
    def answers(cls, question: str, args: DcpoOptions) -> bool:
        """Without smooth advantages, none about rollouts."""
        return super().answers(question, args) and (question != "advantages" or args.dcpo_smooth)

    @classmethod
    def complaints(cls, args: DcpoOptions) -> list[str]:
        """Refuse smooth advantages beside other advantages."""
        if not args.dcpo_smooth:
            return []
        complaints = unmet("dcpo_smooth=True", OWN_ADVANTAGES, args)
        if len(args.shaping_names) > 1:
            complaints.append(
                f"dcpo_smooth=True cannot be combined with advantage_shaping={args.advantage_shaping!r}: it replaces "
                "the advantages the others made. Use 'dcpo' alone, or dcpo_smooth=False."
            )
        return complaints

    def weights(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return 0 for clipped tokens, 1 for others."""
        low, high = self._clipped(batch)
        return (~(low | high)).float()

    def marks(self, batch: TokenBatch, measure: None) -> dict[str, Bool[Tensor, "B T"]]:
        """Return which tokens are clipped."""
        low, high = self._clipped(batch)
        return {"dcpo/clipped_low": low, "dcpo/clipped_high": high}

    def bounds(self, old_probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """Return low and high for old probabilities in [0, 1]."""
        inverse = 4 / old_probabilities.clamp(min=TINY)
        low = 0.5 + 0.5 * (1 - self.args.dcpo_epsilon_low * inverse).clamp(min=0).sqrt()
        high = 0.5 + 0.5 * (1 + self.args.dcpo_epsilon_high * inverse).sqrt()
        return low, high.clamp(max=HIGHEST)

    def _clipped(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        low, high = self.bounds(batch.old_logps.float().exp())
        too_low, too_high = clipped(batch.ratio, batch.advantages, low, high)
        return too_low, too_high | ((batch.advantages < 0) & (batch.ratio > HIGHEST))

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return the smooth advantages, and remember the rewards."""
        size = rollout.num_generations
        new = standardized(rollout.rewards, size, EPS).view(-1, size)
        groups = rollout.rewards.view(-1, size)
        times, total = torch.ones_like(groups[:, :1]), torch.zeros_like(new)
        for i, rewards in enumerate(groups):
            scored = rewards[~rewards.isnan()]
            if len(scored):
                times[i], mean, variance = self._remember(rollout.prompts[i * size], scored)
                differs = variance**0.5 > EPS * max(abs(mean), EPS)  # below that it is rounding
                total[i] = ((rewards - mean) / (variance**0.5 + EPS)).nan_to_num(0.0) if differs else 0.0
        first = ((times - 1) * new + total) / times
        second = (new + (times - 1) * total) / times
        return torch.where(first.abs() < second.abs(), first, second).flatten()

    def _remember(self, prompt: str, rewards: Tensor) -> tuple[float, float, float]:
        key = hashlib.sha256(prompt.encode()).hexdigest()[:16]
        times, mean, variance = self.seen.get(key, [0, 0.0, 0.0])
        difference, times = rewards.mean().item() - mean, times + 1
        own = rewards.var(correction=0).item()
        variance = ((times - 1) * variance + own + (times - 1) / times * difference**2) / times
        self.seen[key] = [times, mean + difference / times, variance]
        return self.seen[key][0], self.seen[key][1], variance

    def state_dict(self) -> dict[str, Any]:
        """Return what each prompt remembers."""
        return {"seen": self.seen} if self.args.dcpo_smooth else {}

    def load_state_dict(self, state: Any) -> None:
        """Continue from a [`state_dict`].

        Raises:
            `ValueError`: a value is missing or cannot be.
        """
        if self.args.dcpo_smooth:
            self.seen = from_state(state, "seen", lambda x: isinstance(x, dict), "a mapping from prompts to rewards")
