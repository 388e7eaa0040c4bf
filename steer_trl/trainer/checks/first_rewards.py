"""The first result of each reward function, checked: TRL's error about one that is no list names no function."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from trl.trainer.utils import is_async_callable

from steer_trl.rewards.returned import reward_complaints
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

        def checked(result: Any, completions: Any) -> Any:
            refuse(reward_complaints(name, result, len(completions)), "rewards")
            self._checked.add(number)
            return result

        async def wait(**given: Any) -> Any:
            return checked(await function(**given), given["completions"])

        def call(**given: Any) -> Any:
            return checked(function(**given), given["completions"])

        chosen: Callable[..., Any] = wait if is_async_callable(function) else call
        return chosen
