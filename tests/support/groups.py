"""Groups whose completions are given, each a function of its prompt and its place in the group.

However prompts are drawn, in whatever batches and on whatever ranks, a prompt's completions stay the same. Of prompts
`i+0=`, those with even i are informative; those with i = 1 modulo 4 are never solved, with i = 3 modulo 4 always.
"""

import random

from datasets import Dataset

CORRECT, INCORRECT = "1", "0"


def numbered(count):
    """Prompts of different lengths: `0+0=`, `1+0=`, ... A quarter is never solved, a quarter always."""
    return Dataset.from_dict({"prompt": [f"{i}+{'0' * (1 + i % 3)}=" for i in range(count)]})


def number(prompt):
    return int(prompt.split("+")[0])


def is_informative(prompt):
    return number(prompt) % 2 == 0


def completion(prompt, place):
    """The text: whether it is correct comes first. Lengths differ from prompt to prompt; no two texts are equal."""
    kind = number(prompt) % 4
    right = {1: False, 3: True}.get(kind, place % 2 == 0)
    dice = random.Random(f"{prompt} {place}")
    tail = "".join(dice.choice("23456789") for _ in range(1 + (number(prompt) + place) % 7))
    return f"{CORRECT if right else INCORRECT}{place}{number(prompt):03d}{tail}"


def is_correct(completions, **_):
    return [float(text.startswith(CORRECT)) for text in completions]


def brevity(completions, **_):
    """A shaped reward, which differs in every group."""
    return [-0.1 * len(text) - 0.01 * int(text[1]) for text in completions]


class Given:
    """A `rollout_func`; `asked` are the prompts of this rank's groups, in the order in which they were asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, prompts, trainer):
        first, size = trainer.accelerator.process_index * len(prompts), trainer.num_generations
        texts = [completion(prompt, (first + i) % size) for i, prompt in enumerate(prompts)]
        self.asked += [prompt for i, prompt in enumerate(prompts) if (first + i) % size == 0]
        ids = [trainer.processing_class(text)["input_ids"] for text in texts]
        return {
            "prompt_ids": [trainer.processing_class(prompt)["input_ids"] for prompt in prompts],
            "completion_ids": ids,
            "logprobs": [[-0.1 * token for token in tokens] for tokens in ids],
        }
