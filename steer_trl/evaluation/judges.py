"""Decides whether a completion is correct, with `MathReward` or any reward function for TRL."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from steer_trl.rewards import MathReward
from steer_trl.rewards.math_reward import Verdict
from steer_trl.support.exceptions import InvalidValueError

Judge = Callable[[Sequence[str], Sequence[Mapping[str, Any]]], list[Verdict]]
"""Returns a verdict for each completion, given the completions and the data-set row of each."""


def make_judge(reward: MathReward | Callable[..., Any]) -> Judge:
    """Return a judge that uses a reward to decide whether a completion is correct.

    `MathReward` reads the column `solution`. Any other function is given `prompts`, `completions`
    (strings, or messages if the prompt is a conversation) and every column of the data set. A
    completion is then correct if its reward is above 0, and incorrect if the reward is `None`. In a
    majority vote, completions that are different strings count as different answers. The function may be `async`. The
    judge raises `ValueError` unless the function returns a number or `None` for each completion.
    """
    if isinstance(reward, MathReward):
        return lambda completions, rows: reward.judge(list(completions), [row["solution"] for row in rows])
    return partial(_ask, reward)


def _ask(reward: Callable[..., Any], completions: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}
    prompts = [row["prompt"] for row in rows]
    answers: list[Any] = [
        text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
        for text, prompt in zip(completions, prompts, strict=True)
    ]
    rewards = _await(reward(prompts=prompts, completions=answers, **columns))
    try:
        correct = [value is not None and float(value) > 0 for value in rewards]
        pairs = list(zip(completions, correct, strict=True))
    except (TypeError, ValueError) as error:
        name = getattr(reward, "__name__", type(reward).__name__)
        raise InvalidValueError(
            f"the reward function {name!r} must return a list with one number, or None, for each completion, got "
            f"{rewards!r:.80} for {len(answers)}."
        ) from error
    return [Verdict(text, is_correct, vote=text.strip()) for text, is_correct in pairs]


def _await(result: Any) -> Any:
    """Return the result of an `async` function. Any other value is returned unchanged."""
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    # A notebook already runs a loop in this thread, so the function gets a loop in another one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()
