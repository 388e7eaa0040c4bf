"""Combines the hooks of several methods, in this order:

    A  ->  advantages replace  ->  scales multiply  ->  bonuses add  ->  weights multiply

Each hook receives the advantages as the earlier hooks left them. STEER's weights, for example, depend on the size of
the advantages that other methods have shaped. Scales commute. So do weights, because each method reads the advantages
before any weight is applied. Two replacements or two bonuses do not commute, so `checks.py` refuses them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from steer_trl.shaping.base import BATCH_HOOKS, ROLLOUT_HOOKS, Shaper
from steer_trl.shaping.batch import Rollout, TokenBatch
from steer_trl.shaping.methods import SHAPERS
from steer_trl.shaping.order_statistics import Reduce
from steer_trl.support.exceptions import InvalidValueError

Shapers = Mapping[str, Shaper]


@dataclass(frozen=True)
class Shaped:
    """The result of applying all methods to a micro-batch.

    Attributes:
        advantages (`torch.Tensor` of shape `[B, T]`, *optional*): the shaped advantages. `None` if no method
            changes them, so that the loss stays bit for bit the same.
        weights (`torch.Tensor` of shape `[B, T]`): the product of all methods' weights; 1 for masked tokens.
        marks (`dict[str, torch.Tensor]`): the masks that the methods' [`Shaper.marks`] return for the log.
    """

    advantages: Tensor | None
    weights: Tensor
    marks: dict[str, Tensor]


COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "advantages": lambda before, result: result,
    "scales": lambda before, result: (before * result).to(before.dtype),
    "rollout_bonus": torch.add,
}


def find_active(shapers: Shapers) -> list[Shaper]:
    """Return the methods that can currently change something."""
    return [shaper for shaper in shapers.values() if shaper.active]


def find_rollout_methods(shapers: Shapers) -> list[Shaper]:
    """Return the active methods that change the advantages of a whole rollout."""
    return [shaper for shaper in find_active(shapers) if shaper.overrides(*ROLLOUT_HOOKS)]


def shape_rollout(shapers: Iterable[Shaper], rollout: Rollout) -> Tensor:
    """Apply all methods in `shapers` to a rollout, and return the advantages `[N, 1]` or `[N, T]`.

    The order of the methods in `shapers` does not matter.
    """
    shapers = list(shapers)
    for hook in ROLLOUT_HOOKS:
        for shaper in (s for s in shapers if s.overrides(hook)):
            result = getattr(shaper, hook)(rollout)
            _refuse_bad_numbers(shaper, hook, result)
            result = result.unsqueeze(1) if result.dim() == 1 else result
            rollout = replace(rollout, advantages=COMBINE[hook](rollout.advantages, result))
    return rollout.advantages


def replaces_kl(shapers: Shapers) -> bool:
    """Return whether an active method takes the place of TRL's KL penalty."""
    return any(shaper.replaces_kl and shaper.active for shaper in shapers.values())


def measure_all(shapers: Shapers, batch: TokenBatch, reduce: Reduce) -> dict[str, Any]:
    """Return the statistics of each active method that acts in the loss, by the method's name.

    If `reduce` is collective, so is this function. The same methods are active on every rank.
    """
    acting = [(name, shaper) for name, shaper in shapers.items() if shaper.active and shaper.overrides(*BATCH_HOOKS)]
    measures = {}
    # Weights read the advantages with the bonuses, so the bonuses come first.
    for name, shaper in sorted(acting, key=lambda item: not item[1].overrides("bonus")):
        measures[name] = shaper.measure(batch, reduce)
        batch = _add_bonus(shaper, batch, measures[name])
    return measures


def shape_batch(shapers: Shapers, batch: TokenBatch, measures: Mapping[str, Any]) -> Shaped:
    """Apply each method in `measures` to a micro-batch.

    The statistics in `measures` must have been computed over tokens that include this micro-batch.
    """
    weights = torch.ones_like(batch.logps, dtype=torch.float32)
    marks: dict[str, Tensor] = {}
    changed = False
    for name, measure in measures.items():
        shaper = shapers[name]
        marks |= shaper.marks(batch, measure)
        with_bonus = _add_bonus(shaper, batch, measure)
        own_weights = shaper.weights(with_bonus, measure)
        if own_weights is not None:
            _check_result(shaper, "weights", own_weights, batch)
            weights = weights * torch.where(batch.mask.bool(), own_weights, 1.0)
        changed = changed or own_weights is not None or with_bonus is not batch
        batch = with_bonus
    return Shaped(batch.advantages * weights if changed else None, weights, marks)


def _add_bonus(shaper: Shaper, batch: TokenBatch, measure: Any) -> TokenBatch:
    bonus = shaper.bonus(batch, measure)
    if bonus is None:
        return batch
    _check_result(shaper, "bonus", bonus, batch)
    return replace(batch, advantages=batch.advantages + torch.where(batch.mask.bool(), bonus, 0.0))


def _check_result(shaper: Shaper, hook: str, result: Tensor, batch: TokenBatch) -> None:
    """Raise `InvalidValueError` if `result` is not a finite number for each trained token of `batch`.

    A number for each completion `[B]` would be read as one for each token.
    """
    if result.dim() == 1:
        raise InvalidValueError(
            f"{type(shaper).__name__}.{hook} must return a tensor [B, T], got one of shape {list(result.shape)}. For "
            "one number for each completion, return it with shape [B, 1]."
        )
    _refuse_bad_numbers(shaper, hook, result, batch.mask.bool())
    if hook == "weights" and _is_custom(shaper) and (batch.mask.bool() & (result < 0)).any():
        raise InvalidValueError(
            f"{type(shaper).__name__}.weights must return numbers of at least 0, got {result.min():g}. A weight below "
            "0 turns the sign of an advantage, by which TRL clips. Clamp the weights, or return a bonus instead."
        )


def _is_custom(shaper: Shaper) -> bool:
    return type(shaper) not in SHAPERS.values()


def _refuse_bad_numbers(shaper: Shaper, hook: str, result: Tensor, where: Tensor | None = None) -> None:
    """Raise `InvalidValueError` if a custom method returns NaN or an infinite number, which would spoil every weight.

    The package's own methods are not checked, since this waits for the device.
    """
    if not _is_custom(shaper):
        return
    is_bad = ~result.isfinite() if where is None else where & ~result.isfinite()
    if count := int(is_bad.sum()):
        raise InvalidValueError(
            f"{type(shaper).__name__}.{hook} must return finite numbers, got NaN or infinity for {count} of "
            f"{is_bad.numel()}. Its inputs can be NaN or infinite at single tokens, and a reward can be NaN: replace "
            "the result there, for instance torch.where(result.isfinite(), result, neutral)."
        )


def find_kl_coef(shapers: Shapers) -> float | None:
    """Return the coefficient of TRL's KL penalty if a method sets it, otherwise `None`."""
    return next((shaper.kl_coef() for shaper in shapers.values() if shaper.overrides("kl_coef")), None)


def find_entropy_coef(shapers: Shapers) -> float | None:
    """Return the coefficient of TRL's entropy bonus if a method sets it, otherwise `None`."""
    return next((shaper.entropy_coef() for shaper in shapers.values() if shaper.overrides("entropy_coef")), None)
