r"""The wording of prompts. In training and evaluation, one instruction replaces those of the data sets.

`"boxed"` is the wording in STEER's training file, and `"answer_line"` is the wording in DAPO-Math-17k.
"""

import re

INSTRUCTIONS = {
    "boxed": (
        "Solve the following math problem step by step. The last line of your response should be of the form "
        "\\boxed{Answer} where Answer is the answer to the problem.\n\n{problem}\n\n"
        "Remember to put your answer in \\boxed{...} format on its own line."
    ),
    "answer_line": (
        "Solve the following math problem step by step. The last line of your response should be of the form "
        "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n{problem}\n\n"
        'Remember to put your answer on its own line after "Answer:".'
    ),
}
INSTRUCTIONS["either"] = INSTRUCTIONS["boxed"]

PAPERS_WORDING = "papers"
OF_THE_PAPERS = dict.fromkeys(("aime24", "aime25", "amc23"), INSTRUCTIONS["answer_line"]) | dict.fromkeys(
    ("math500", "minerva", "olympiadbench"), "{problem}"
)
"""Maps each benchmark to its wording in the test files of STEER's authors: DAPO's wording, or the problem alone."""

WORDINGS_BEFORE = re.compile(
    r"\s*Solve the following math problem step by step\.\s+The last line of your response should be of the form "
    r".{1,60}?where.{0,20}? is the answer to the problem\.\s*",
    re.DOTALL,
)
WORDINGS_AFTER = re.compile(
    r"\s*(Remember to put your answer on its own line after \"Answer:\"\.|"
    # a closing sentence that asks for the answer in \boxed{}, or after GSM8K's ####
    r"(Let's think|Think|Reason|Please|Remember|You must|Put|Output|Return|Write|Give|Present)\b[^.?!\n]*"
    r"\b(answer|response)\b[^.?!\n]*(\\boxed\{[^{}]*\}|####)[^?!\n]*)\s*$"
)


def strip_instruction(prompt: str) -> str:
    """Return a prompt without its instruction. A prompt without a known instruction is returned unchanged."""
    before = WORDINGS_BEFORE.match(prompt)
    return WORDINGS_AFTER.sub("", prompt[before.end() if before else 0 :]).strip()


def add_instruction(problem: str, instruction: str) -> str:
    """Replace `{problem}` in an instruction with the problem. Other braces have no special meaning."""
    return instruction.replace("{problem}", problem)
