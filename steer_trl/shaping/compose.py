"""Several methods at once: in which order they act, and which of them do not go together.

    A  ->  advantages replace  ->  scales multiply  ->  bonuses add  ->  weights multiply

Every answer sees what those before it made: STEER reads the size of the advantages, and is given the shaped ones.
Scales commute, and so do weights (each reads the advantages before any weight); two replacements or two bonuses do
not, and are refused.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from steer_trl.functional.order_statistics import Reduce
from steer_trl.shaping.base import OF_BATCHES, OF_ROLLOUTS, Shaper
from steer_trl.shaping.batch import Rollout, TokenBatch

Shapers = Mapping[str, Shaper]


@dataclass(frozen=True)
class Shaped:
    """What became of a micro-batch.

    Attributes:
        advantages (`torch.Tensor` of shape `[B, T]`, *optional*): `None` where nothing changes: off is exactly off.
        weights (`torch.Tensor` of shape `[B, T]`): the product of all methods' weights, 1 off the mask.
        marks (`dict[str, torch.Tensor]`): see [`Shaper.marks`].
    """

    advantages: Tensor | None
    weights: Tensor
    marks: dict[str, Tensor]


COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "advantages": lambda before, answer: answer,
    "scales": lambda before, answer: (before * answer).to(before.dtype),
    "rollout_bonus": torch.add,
}


def act_on_rollouts(shapers: Shapers) -> list[Shaper]:
    """The methods that change the advantages of a whole rollout."""
    return [s for s in shapers.values() if s.active and any(s.answers(question) for question in OF_ROLLOUTS)]


def shape_rollout(shapers: Iterable[Shaper], rollout: Rollout) -> Tensor:
    """Return the advantages `[N, 1]` or `[N, T]` after all `shapers`, whatever their order."""
    shapers = list(shapers)
    for question in OF_ROLLOUTS:
        for shaper in (s for s in shapers if s.answers(question)):
            answer = getattr(shaper, question)(rollout)
            answer = answer.unsqueeze(1) if answer.dim() == 1 else answer
            rollout = replace(rollout, advantages=COMBINE[question](rollout.advantages, answer))
    return rollout.advantages


def compares_tokens(shapers: Shapers) -> bool:
    """Whether any active method compares the tokens of an optimizer step with each other."""
    return any(shaper.active and shaper.answers("measure") for shaper in shapers.values())


def reads_sensitivities(shapers: Shapers) -> bool:
    """Whether any method reads the exact sensitivities, active now or later."""
    return any(shaper.needs_sensitivities for shaper in shapers.values())


def measured(shapers: Shapers, batch: TokenBatch, reduce: Reduce) -> dict[str, Any]:
    """Return the measure of each active method. Collective if `reduce` is; all ranks agree on what is active."""
    measures = {}
    acting = {n: s for n, s in shapers.items() if s.active and any(s.answers(q) for q in OF_BATCHES)}
    bonuses_first = sorted(acting.items(), key=lambda item: not item[1].answers("bonus"))
    for name, shaper in bonuses_first:  # weights see bonuses
        measures[name] = shaper.measure(batch, reduce)
        batch = _with_bonus(shaper, batch, measures[name])
    return measures


def shaped(shapers: Shapers, batch: TokenBatch, measures: Mapping[str, Any]) -> Shaped:
    """Apply every method measured to a micro-batch of what was measured."""
    weights = torch.ones_like(batch.logps, dtype=torch.float32)
    marks: dict[str, Tensor] = {}
    changed = False
    for name, measure in measures.items():
        shaper = shapers[name]
        marks |= shaper.marks(batch, measure)
        before, batch = batch, _with_bonus(shaper, batch, measure)
        own = shaper.weights(batch, measure)
        if own is not None:
            weights = weights * torch.where(batch.mask.bool(), own, 1.0)
        changed = changed or own is not None or batch is not before
    return Shaped(batch.advantages * weights if changed else None, weights, marks)


def _with_bonus(shaper: Shaper, batch: TokenBatch, measure: Any) -> TokenBatch:
    bonus = shaper.bonus(batch, measure)
    if bonus is None:
        return batch
    return replace(batch, advantages=batch.advantages + torch.where(batch.mask.bool(), bonus, 0.0))


def entropy_coef(shapers: Shapers) -> float | None:
    """Return the coefficient of TRL's entropy bonus that a method sets; `None` where it is the user's."""
    return next((s.entropy_coef() for s in shapers.values() if s.answers("entropy_coef")), None)
