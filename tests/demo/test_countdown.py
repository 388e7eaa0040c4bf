"""The laptop task: its verifier and its problems."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steer_trl.demo import puzzle
from steer_trl.demo.puzzle import SPLITS, all_problems, countdown_reward, is_correct, problems, solved_examples


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        ("3*7=21;21+5=26", True),
        ("7*3=21;5+21=26", True),
        ("3*7=21", False),  # a number left over
        ("3*7=22;22+4=26", False),  # wrong arithmetic
        ("3*7=21;21+6=27", False),  # a number that is not there
        ("3*7=21;21+5=26;", False),
        ("3*7=21;21+5=26;26+0=26", False),
        ("3*7=21;5+3=8", False),  # a number used twice
        ("5+21=26;3*7=21", False),  # a result used before it is there
        ("3*7=21;21-5=16", False),  # another target
        ("", False),
        ("nonsense", False),
        ("\uff13*7=21;21+5=26", False),  # a full-width 3
    ],
)
def test_the_verifier_accepts_correct_steps_only(completion, right):
    assert is_correct("3 5 7>26:", completion) is right
    assert countdown_reward(prompts=["3 5 7>26:"], completions=[completion]) == [float(right)]


def test_listed_solutions_are_correct_and_several():
    every = all_problems()
    assert len(every) == 8360
    for prompt, found in every.items():
        assert len(set(found)) == len(found) >= puzzle.FEWEST_SOLUTIONS
        assert all(is_correct(prompt, text) and len(text) < puzzle.MAX_COMPLETION_TOKENS for text in found)


@given(st.integers(0, 10**6))
def test_the_verifier_accepts_no_more_than_the_list(seed):
    """Random step pairs: right if and only if listed."""
    rng = random.Random(seed)
    prompt = rng.choice(list(all_problems()))
    a, b, c = rng.sample(prompt.split(">")[0].split(), 3)
    first, second = rng.choice("+-*"), rng.choice("+-*")
    middle = eval(f"{a}{first}{b}")
    text = f"{a}{first}{b}={middle};{middle}{second}{c}={eval(f'{middle}{second}{c}')}"
    assert is_correct(prompt, text) == (text in all_problems()[prompt])


def test_splits_and_examples_share_no_numbers():
    def numbers_of(prompt):
        return tuple(sorted(map(int, prompt.split(">")[0].split())))

    def problem(prompt):
        return numbers_of(prompt), prompt.split(">")[1]

    prompts = {split: [row["prompt"] for row in problems(split)] for split in SPLITS}
    found = {split: {problem(prompt) for prompt in rows} for split, rows in prompts.items()}
    assert {split: len(rows) for split, rows in found.items()} == {"validation": 800, "test": 2000, "train": 5556}
    numbers = [{numbers_of(prompt) for prompt in rows} for rows in prompts.values()]
    assert len(set().union(*numbers)) == sum(map(len, numbers)) == 1540  # all that there are
    assert [row["id"] for row in problems("test")] == [f"test-{i}" for i in range(2000)]
    examples = solved_examples(500)
    assert {problem(example["prompt"]) for example in examples} <= found["train"]
    assert all(is_correct(example["prompt"], example["completion"]) for example in examples)
    assert examples == solved_examples(500) != solved_examples(500, seed=2)
    with pytest.raises(ValueError, match=r"split=.dev. is unknown"):
        problems("dev")
