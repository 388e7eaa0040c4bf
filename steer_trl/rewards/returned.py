"""What a reward function has returned, checked: the errors that it would cause name no function."""

from collections.abc import Iterable, Mapping, Sized
from typing import Any

from torch import Tensor


def reward_complaints(name: str, result: Any, completions: int) -> list[str]:
    """Complain about what a reward function has returned, unless it is a number or `None` for each completion."""
    must = f"the reward function {name!r} must return a list with one number, or None, for each completion, got"
    if isinstance(result, (str, bytes, Mapping)) or not isinstance(result, Iterable) or _is_scalar(result):
        return [f"{must} {result!r:.80}."]
    bad = [] if not isinstance(result, (list, tuple)) else [item for item in result if not _is_number(item)]
    if not bad and isinstance(result, Sized) and len(result) != completions:
        return [f"{must} {len(result)} for {completions} completions."]
    return [f"{must} {bad[0]!r:.80} among them."] if bad else []


def _is_scalar(result: Any) -> bool:
    return getattr(result, "ndim", 1) == 0  # a tensor or an array says that it is iterable


def _is_number(item: Any) -> bool:
    if isinstance(item, (str, bytes)):
        return False
    if isinstance(item, Tensor):
        return item.numel() == 1
    try:
        return item is None or float(item) is not None
    except (TypeError, ValueError):
        return False
