"""What decides whether a completion is correct: our check of the boxed answer, or any reward function of TRL's."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from steer_trl.exceptions import InvalidValueError
from steer_trl.rewards import MathReward
from steer_trl.rewards.math_reward import Verdict

Judge = Callable[[Sequence[str], Sequence[Mapping[str, Any]]], list[Verdict]]
"""Returns a verdict for each completion of the problem in its row of the data set."""


class RewardJudge:
    """A reward function as a judge: a completion is correct where its reward is above 0.

    Args:
        function (`callable`): a reward function as TRL's trainers take it, `async` or not; it is given `prompts`,
            `completions` (texts, or messages where the prompt is a conversation) and every column of the data set.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """Return the verdicts; a completion that cannot be scored is incorrect, and each is an answer of its own.

        Raises:
            `ValueError`: rewards that are not one number or `None` for each completion.
        """
        columns = {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}
        prompts = [row["prompt"] for row in rows]
        given: list[Any] = [
            text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
            for text, prompt in zip(completions, prompts, strict=True)
        ]
        rewards = _awaited(self.function(prompts=prompts, completions=given, **columns))
        try:
            correct = [reward is not None and float(reward) > 0 for reward in rewards]
            pairs = list(zip(completions, correct, strict=True))
        except (TypeError, ValueError) as error:
            name = getattr(self.function, "__name__", type(self.function).__name__)
            raise InvalidValueError(
                f"the reward function {name!r} must return a list with one number, or None, for each completion, got "
                f"{rewards!r:.80} for {len(given)}."
            ) from error
        return [Verdict(text, is_correct, vote=text.strip()) for text, is_correct in pairs]


class MathJudge:
    """[`~steer_trl.rewards.MathReward`] as a judge, by the column `solution`."""

    def __init__(self, reward: MathReward) -> None:
        self.reward = reward

    def __call__(self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """Return its verdicts."""
        return self.reward.judge(list(completions), [row["solution"] for row in rows])


def as_judge(judge: MathReward | Callable[..., Any] | None) -> Judge:
    """Return a judge for what a user has given: `MathReward`, a reward function, one of these judges, or nothing."""
    if judge is None or isinstance(judge, MathReward):
        return MathJudge(judge or MathReward())
    return judge if isinstance(judge, (MathJudge, RewardJudge)) else RewardJudge(judge)


def _awaited(result: Any) -> Any:
    """What an asynchronous function returns in the end; by a thread, since a notebook runs a loop in this one."""
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()
