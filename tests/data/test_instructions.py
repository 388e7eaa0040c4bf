"""A sentence that only asks for the form of the answer is removed, and no other text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steer_trl.data.instructions import INSTRUCTIONS, add_instruction, strip_instruction

PROBLEMS = [
    "What is $1+1$?",
    "Let $y = 2x$.",
    "Find $y^2$.",
    "Compute 2+3.",
    "Write $0.5$ as a fraction.",
    "Give your answer in lowest terms.",
    "Remember that $x>0$!",
    "Put 3 balls in a box.",
    "Please find all answers of the form $a+b\\sqrt{c}$.",
    "A response of 1.5 V is measured",
]
# Each with room for a qualifier before the mark and behind it.
REQUESTS = [
    r"Please reason step by step, and put your final answer{} within \boxed{{}}{}.",
    r"Give your answer{} in \boxed{{}}{}.",
    r"You must place your answer{} inside \boxed{{}}{}, and it will be extracted from the \boxed{{}} tag.",
    r"Present the answer{} in LaTex format: \boxed{{Your answer}}{}",
    r"Remember to put your answer{} in \boxed{{...}} format{} on its own line.",
    r"Return your final response{} within $\boxed{{}}${}!",
    'Let\'s think step by step and output the final answer{} after "####"{}.',
]
QUALIFIERS = [
    "rounded to two decimals",
    "in simplest form",
    "as a fraction",
    "as an integer",
    "in terms of $x$",
    "with units",
    "modulo 7",
    "to 3 significant figures",
    "in the form $a+b$",
    "if $x>0$",
]
BARE = [request.format("", "") for request in REQUESTS]
QUALIFIED = [
    text
    for request in REQUESTS
    for qualifier in QUALIFIERS
    for text in (request.format("", f" {qualifier}"), request.format(f", {qualifier},", ""))
]
BOXES_WITH_A_FORM = [r"Give your answer as \boxed{a+b}.", r"Write the answer as \boxed{\frac{m}{n}}."]


SENTENCES = st.sampled_from([*PROBLEMS, *BARE, *QUALIFIED, *BOXES_WITH_A_FORM])
GAPS = st.sampled_from([" ", "\n", "\n\n"])


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(SENTENCES, GAPS), min_size=1, max_size=6))
def test_only_requests_without_a_qualifier_are_removed(parts):
    # A sentence without a full stop ends with its line.
    prompt = "".join(text + (gap if text[-1] in ".?!" else "\n") for text, gap in parts)
    kept = " ".join(text for text, _ in parts if text not in BARE)
    assert strip_instruction(prompt).split() == kept.split()


@pytest.mark.parametrize("sentence", [text for text in BARE if text[-1] in ".!"])
@pytest.mark.parametrize("gap", [" ", "\n", "\n\n"])
def test_a_question_behind_the_request_stays(sentence, gap):
    question = "Let $y = 2x$. Find $y^2$."
    assert strip_instruction(f"{sentence}{gap}{question}") == question


def test_a_request_may_follow_a_problem_without_a_full_stop():
    assert strip_instruction(f"Find $x$ {BARE[0]}") == "Find $x$"


def test_every_instruction_of_ours_is_removed():
    for instruction in INSTRUCTIONS.values():
        assert strip_instruction(add_instruction("What is 1+1?", instruction)) == "What is 1+1?"
