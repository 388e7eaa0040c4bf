"""The task of rearranging ten letters into a palindrome: reasoning_gym's `palindrome_generation`.

    qapdqrdapr:   ->   dqrappardq

reasoning_gym (Apache-2.0) generates the problems and judges the answers; only our wording is shorter. The letters are
five different pairs, so a problem has 120 correct answers.
"""

import string
from collections.abc import Iterator
from functools import cache
from itertools import permutations
from typing import Any

import reasoning_gym

from experiments.tasks.puzzles import Puzzle, small, task

LENGTH = 10
SIZES = {"min_length": LENGTH, "max_length": LENGTH}


def prompts(count: int) -> Iterator[str]:
    """Generate `count` problems with different letters."""
    seen: set[str] = set()
    for entry in reasoning_gym.create_dataset("palindrome_generation", size=50 * count, seed=0, **SIZES):
        letters = "".join(entry["metadata"]["letters"])
        pairs = "".join(sorted(set(letters)))
        if len(pairs) == LENGTH // 2 and pairs not in seen:  # skip problems that differ only in order
            seen.add(pairs)
            yield letters + ":"
        if len(seen) == count:
            return


def solutions(prompt: str) -> list[str]:
    """Return all palindromes of the letters."""
    halves = permutations(sorted(set(prompt.rstrip(":"))))
    return ["".join(half) + "".join(reversed(half)) for half in halves]


@cache
def _scorer() -> Any:
    return reasoning_gym.create_dataset("palindrome_generation", size=1, seed=0, **SIZES)


def is_correct(prompt: str, completion: str) -> bool:
    """Return whether the answer is a palindrome of exactly these letters, according to reasoning_gym."""
    entry = {"metadata": {"letters": list(prompt.rstrip(":"))}}
    return completion == completion.strip() and _scorer().score_answer(completion, entry) == 1.0


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """Return the rewards for TRL: 1 for a correct answer, 0 for an incorrect one."""
    return [float(is_correct(prompt, text)) for prompt, text in zip(prompts, completions, strict=True)]


PUZZLE = Puzzle(small(string.ascii_lowercase + ":"), prompts, solutions)
problems = PUZZLE.problems
TASK = task("palindrome", PUZZLE, start_steps=250)

if __name__ == "__main__":
    PUZZLE.start()
