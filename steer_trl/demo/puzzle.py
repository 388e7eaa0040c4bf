"""Problems such as `3 5 7>26:`, solved by steps such as `3*7=21;21+5=26`.

A problem has three numbers from 1 to 20, each to be used once, and the operations `+`, `-` and `*`. Every result is
between 0 and 99. Every problem has at least four different correct solutions, so that a collapse to one of them can be
seen. No set of three numbers is in two splits, so that a test problem cannot be solved by recalling the same numbers
with a different target.
"""

import operator
import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, permutations
from typing import Any

from steer_trl.support.validation import check_choice, refuse

LARGEST_NUMBER, LARGEST_VALUE, FEWEST_SOLUTIONS = 20, 99, 4
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
CHARACTERS = "0123456789+-*=;>: "
MAX_COMPLETION_TOKENS = 18
START_STEPS = 500
"""The number of supervised training steps of the initial model, which then solves few of the problems in one try."""
SPLITS = {"validation": 800, "test": 2000, "train": None}
"""The number of problems in each split; `"train"` has all remaining problems."""
_STEP = re.compile(r"(\d{1,2})([+*-])(\d{1,2})=(\d{1,2})", re.ASCII)


def walks(values: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    """Yield each correct sequence of steps that reduces `values` to one number, and that number."""
    if len(values) == 1:
        yield "", values[0]
    for i, j in permutations(range(len(values)), 2):
        other_values = tuple(value for k, value in enumerate(values) if k not in (i, j))
        for symbol, operate in OPERATORS.items():
            result = operate(values[i], values[j])
            if 0 <= result <= LARGEST_VALUE:
                for steps, target in walks((*other_values, result)):
                    yield f"{values[i]}{symbol}{values[j]}={result};{steps}".rstrip(";"), target


@cache
def all_problems() -> dict[str, list[str]]:
    """Return all 8,360 problems, as a dict that maps each prompt to its distinct correct solutions.

    The numbers in a prompt are in ascending order.
    """
    problems: dict[str, dict[str, None]] = {}
    for numbers in combinations_with_replacement(range(1, LARGEST_NUMBER + 1), 3):
        for steps, target in walks(numbers):
            problems.setdefault(f"{' '.join(map(str, numbers))}>{target}:", {})[steps] = None
    return {prompt: list(texts) for prompt, texts in problems.items() if len(texts) >= FEWEST_SOLUTIONS}


def is_correct(prompt: str, completion: str) -> bool:
    """Return whether a completion is correct.

    Each step must use available numbers and be computed correctly. All numbers must be used and the target reached.
    """
    numbers, target = prompt.rstrip(":").split(">")
    available = Counter(map(int, numbers.split()))
    for text in completion.split(";"):
        step = _STEP.fullmatch(text)
        if step is None:
            return False
        left, right, result = int(step[1]), int(step[3]), int(step[4])
        available.subtract([left, right])
        if min(available.values()) < 0 or OPERATORS[step[2]](left, right) != result:
            return False
        available[result] += 1
    return +available == Counter([int(target)])


def countdown_reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """Return 1 for a correct completion and 0 for an incorrect one. This is a reward function for TRL."""
    return [float(is_correct(prompt, text)) for prompt, text in zip(prompts, completions, strict=True)]


@cache
def _splits() -> dict[str, list[dict[str, str]]]:
    rng = random.Random(0)
    of_numbers: dict[str, list[str]] = {}
    for prompt in all_problems():
        of_numbers.setdefault(prompt.split(">")[0], []).append(prompt)
    groups = list(of_numbers.values())
    rng.shuffle(groups)
    rows = {}
    for split, count in SPLITS.items():
        prompts: list[str] = []
        while groups and (count is None or len(prompts) < count):
            prompts += groups.pop()
        rng.shuffle(prompts)
        rows[split] = [{"id": f"{split}-{i}", "prompt": _reorder(p, rng)} for i, p in enumerate(prompts[:count])]
    return rows


def problems(split: str) -> list[dict[str, str]]:
    """Return the problems of a split, as rows with an `id` and a `prompt` whose numbers are in random order.

    The sets of three numbers are shuffled with a fixed seed and assigned to the splits with all of their targets.
    There are 800 problems to select settings (`"validation"`), 2,000 for the evaluation (`"test"`) and 5,556 to train
    on (`"train"`).
    """
    refuse(check_choice("split", split, tuple(SPLITS)), "Countdown")
    return _splits()[split]


def solved_examples(count: int, seed: int = 1) -> list[dict[str, str]]:
    """Draw `count` random correct solutions of the training problems.

    Each is a row with a `prompt` and a `completion`. The numbers of each prompt are in random order.
    """
    rng = random.Random(seed)
    prompts = rng.choices([row["prompt"] for row in problems("train")], k=count)
    return [{"prompt": _reorder(prompt, rng), "completion": rng.choice(solutions(prompt))} for prompt in prompts]


def solutions(prompt: str) -> list[str]:
    """Return all distinct correct solutions of a prompt."""
    numbers, target = prompt.split(">")
    return all_problems()[f"{' '.join(sorted(numbers.split(), key=int))}>{target}"]


def _reorder(prompt: str, rng: random.Random) -> str:
    numbers, target = prompt.split(">")
    return f"{' '.join(rng.sample(numbers.split(), 3))}>{target}"
