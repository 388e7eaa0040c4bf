"""A task for a pretrained language model: to write a word that begins with given letters.

    A word that begins with con:   ->   connect

A word is correct if it is in reasoning_gym's list (Apache-2.0) and has four to eight letters. A problem has at least
fifteen correct words. The model is SmolLM2-135M-Instruct, or the folder or name in the environment variable
WORDS_MODEL. It is first trained for a few steps on random solutions, which show it the form of an answer.
"""

import os
import random
from collections import defaultdict
from functools import cache
from typing import Any

from reasoning_gym.data import read_data_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from experiments.lab import Task
from experiments.tasks.puzzles import Puzzle

MODEL = os.environ.get("WORDS_MODEL", "HuggingFaceTB/SmolLM2-135M-Instruct")
LETTERS, SHORTEST, LONGEST = 3, 4, 8
FEWEST = 15  # the smallest number of correct words for a problem
PROMPT = "A word that begins with {}:"


@cache
def _words() -> dict[str, list[str]]:
    """Return a mapping from each prompt to its correct words."""
    found: dict[str, list[str]] = defaultdict(list)
    for word in sorted(set(read_data_file("words3to10.txt").lower().split())):
        if word.isalpha() and SHORTEST <= len(word) <= LONGEST:
            found[PROMPT.format(word[:LETTERS])].append(word)
    return {prompt: words for prompt, words in found.items() if len(words) >= FEWEST}


def prompts(count: int) -> list[str]:
    """Draw `count` prompts."""
    return random.Random(0).sample(sorted(_words()), count)


def solutions(prompt: str) -> list[str]:
    """Return all correct words, each after a space, as a language model writes it."""
    return [f" {word}" for word in _words()[prompt]]


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """Return the rewards for TRL: 1 for a correct word, 0 for everything else."""
    answers = (text.strip().lower() for text in completions)
    return [float(text in _words()[prompt]) for prompt, text in zip(prompts, answers, strict=True)]


def pretrained(seed: int) -> tuple[Any, Any]:
    """Return the pretrained model and its tokenizer, which do not depend on `seed`."""
    return AutoModelForCausalLM.from_pretrained(MODEL), AutoTokenizer.from_pretrained(MODEL)


PUZZLE = Puzzle(pretrained, prompts, solutions, count=1400)
problems = PUZZLE.problems
MODULE = "experiments.tasks.words"
TASK = Task("words", problems, f"{MODULE}.reward", __file__.replace(".py", ".yaml"), MODULE, start_steps=60)

if __name__ == "__main__":
    PUZZLE.start(per_device_train_batch_size=32, learning_rate=1e-4, bf16=True)
