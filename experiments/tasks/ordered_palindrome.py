"""A second task for the models of the first: a palindrome that begins with its two smallest letters, in order.

    qapdqrdapr:   ->   adqrpprqda

Every such answer is one of `palindrome`'s too, six of 120, so that a model which has learned that task and kept
several answers meets some of these by itself.
"""

from dataclasses import replace
from typing import Any

from experiments.tasks import palindrome


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """Reward function for TRL: 1 for a correct answer, 0 for an incorrect one."""
    return [
        float(text[:2] == "".join(sorted(set(prompt.rstrip(":")))[:2]) and palindrome.is_correct(prompt, text))
        for prompt, text in zip(prompts, completions, strict=True)
    ]


TASK = replace(palindrome.TASK, name="ordered_palindrome", judge="experiments.tasks.ordered_palindrome.reward")
