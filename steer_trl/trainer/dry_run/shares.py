"""The share of the gradient that each method leaves, compared with no method.

In the first step, the policy has not moved since the rollout: the ratio is 1 and nothing is clipped. So the gradient
of the loss with respect to the log-probability of a token is its advantage times a constant, and

    share of a method = sum over the tokens of |advantage after it| / sum over the tokens of |advantage before it|

A method whose hooks act on rollouts and on steps has the product of both shares. A share near 1 does not mean that
nothing is changed: a method can give to some tokens what it takes from others.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from steer_trl.shaping import Shaper
from steer_trl.shaping.base import BATCH_HOOKS, ROLLOUT_HOOKS
from steer_trl.shaping.compose import COMBINE
from steer_trl.support.precision import to_double

COMBINE_IN_LOSS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"bonus": torch.add, "weights": torch.mul}


class Shares:
    """Adds up the absolute advantages before and after each of the `shapers`, whose hooks are replaced."""

    def __init__(self, shapers: Mapping[str, Shaper]) -> None:
        self._hooks = [
            (name, hook)
            for name, shaper in shapers.items()
            for hook in (*ROLLOUT_HOOKS, *BATCH_HOOKS)
            if shaper.overrides(hook)
        ]
        self._sums = {key: torch.zeros(2, dtype=torch.float64) for key in self._hooks}
        for name, hook in self._hooks:
            setattr(shapers[name], hook, self._measure(name, hook, getattr(shapers[name], hook)))

    def _measure(self, name: str, hook: str, act: Callable[..., Tensor | None]) -> Callable[..., Tensor | None]:
        combine = (COMBINE | COMBINE_IN_LOSS)[hook]

        def measured(batch: Any, *args: Any) -> Tensor | None:
            result = act(batch, *args)
            before = batch.advantages
            after = before
            if result is not None:
                after = combine(before, result.unsqueeze(1) if result.dim() == 1 else result)
            mask = batch.mask.bool()
            sizes = [to_double(advantages.expand_as(mask)[mask]).abs().sum() for advantages in (before, after)]
            self._sums[name, hook] += torch.stack(sizes).cpu()
            return result

        return measured

    def take(self, accelerator: Any) -> dict[str, float]:
        """Return the share of each method that acts on advantages, if there are any before it. Collective."""
        shares: dict[str, float] = {}
        if not self._hooks:
            return shares
        sums = torch.stack([self._sums[key] for key in self._hooks]).to(accelerator.device)
        for (name, _), (before, after) in zip(self._hooks, accelerator.reduce(sums).tolist(), strict=True):
            if before > 0:
                shares[name] = shares.get(name, 1.0) * after / before
        return shares
