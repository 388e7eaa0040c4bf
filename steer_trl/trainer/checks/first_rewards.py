"""The first result of each reward function, checked: TRL's error about one that is no list names no function."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from trl.trainer.utils import is_async_callable

from steer_trl.trainer.trl import GRPOTrainer
from steer_trl.validation import refuse


class FirstRewards:
    """Stands between `trainer` and its reward functions until each has returned once."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer
        self._checked: set[int] = set()

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Check what is returned while this lasts."""
        functions = self._trainer.reward_funcs
        if len(self._checked) < len(functions):
            self._trainer.reward_funcs = [self._checking(number, one) for number, one in enumerate(functions)]
        try:
            yield
        finally:
            self._trainer.reward_funcs = functions

    def _checking(self, number: int, function: Any) -> Any:
        if number in self._checked or isinstance(function, nn.Module):
            self._checked.add(number)
            return function
        name = self._trainer.reward_func_names[number]

        def checked(result: Any) -> Any:
            refuse(reward_complaints(name, result), "rewards")
            self._checked.add(number)
            return result

        async def wait(**given: Any) -> Any:
            return checked(await function(**given))

        def call(**given: Any) -> Any:
            return checked(function(**given))

        chosen: Callable[..., Any] = wait if is_async_callable(function) else call
        return chosen


def reward_complaints(name: str, result: Any) -> list[str]:
    """Complain about what a reward function has returned, unless it is a number or `None` for each completion."""
    must = f"the reward function {name!r} must return a list with one number, or None, for each completion, got"
    if isinstance(result, (str, bytes, Mapping)) or not isinstance(result, Iterable) or _is_scalar(result):
        return [f"{must} {result!r:.80}."]
    bad = [] if not isinstance(result, (list, tuple)) else [item for item in result if not _is_number(item)]
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
