"""Instructions are removed from prompts as one pattern would do it, but in linear time."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from steer_trl.data.instructions import INSTRUCTIONS, WORDINGS_BEFORE, add_instruction, strip_instruction

# The rule in one pattern, whose time is cubic.
AFTER = re.compile(
    r"\s*(Remember to put your answer on its own line after \"Answer:\"\.|"
    r"(Let's think|Think|Reason|Please|Remember|You must|Put|Output|Return|Write|Give|Present)\b[^.?!\n]*"
    r"\b(answer|response)\b[^.?!\n]*(\\boxed\{[^{}]*\}|####)[^?!\n]*)\s*$"
)
PIECES = [
    "Put",
    "Write ",
    "Please ",
    " your answer ",
    "answer",
    " response",
    "\\boxed{}",
    "\\boxed{",
    "####",
    ". ",
    "? ",
]
PIECES += ["\n", "  ", "What is 1+1", "Let's think ", "\\boxed{a.b}", "!", INSTRUCTIONS["answer_line"][-60:], "}"]


def by_the_pattern(prompt):
    before = WORDINGS_BEFORE.match(prompt)
    return AFTER.sub("", prompt[before.end() if before else 0 :]).strip()


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_an_instruction_is_removed_as_the_pattern_does(prompt):
    assert strip_instruction(prompt) == by_the_pattern(prompt)


def test_every_instruction_of_ours_is_removed():
    for instruction in INSTRUCTIONS.values():
        assert strip_instruction(add_instruction("What is 1+1?", instruction)) == "What is 1+1?"
