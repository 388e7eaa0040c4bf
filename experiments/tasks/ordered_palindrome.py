"""A second task for models trained on `palindrome`: a palindrome that begins with its two smallest letters in order.

    qapdqrdapr:   ->   adqrpprqda

Six of the 120 correct answers to a problem of `palindrome` are correct here. So a model that has learned `palindrome`
and still gives several different answers finds some of them by itself.
"""

from dataclasses import replace
from typing import Any

from experiments.tasks import palindrome


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """Return the rewards for TRL: 1 for a correct answer, 0 for an incorrect one."""
    return [
        float(text[:2] == "".join(sorted(set(prompt.rstrip(":")))[:2]) and palindrome.is_correct(prompt, text))
        for prompt, text in zip(prompts, completions, strict=True)
    ]


TASK = replace(palindrome.TASK, name="ordered_palindrome", judge="experiments.tasks.ordered_palindrome.reward")
