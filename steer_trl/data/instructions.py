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
WORDING_AFTER = 'Remember to put your answer on its own line after "Answer:".'
# A sentence is an instruction if it asks for the answer in \boxed{}, or after GSM8K's ####, and all of its words are
# among these. Any other word, as in "rounded to two decimals" or "as a fraction", may change the answer.
WORDS = (
    "a after again also always an and answer answers as at be before below box boxed boxes brackets braces by "
    "clearly command enclose enclosed end environment explain extracted final finally following for form format "
    "formatted from give given in inside into is it its itself let's line make must notation of on only output own "
    "place please present problem process provide put question reason reasoning remember respond response return "
    "separate should show solution solve step steps sure tag tags that the then thinking think this to use using we "
    "will with within work wrap wrapped write you your Answer Final LaTeX LaTex Latex Your"
)
WORD = rf"\b(?:{'|'.join(WORDS.split())})\b"
PLACEHOLDER = r"(?i:(?:your|the|final|answer|response|result|solution|here)(?![a-z])|[\s.\u2026_\[\]<>])*+"
MARK = rf"\${{0,2}}\\{{1,2}}boxed\{{{PLACEHOLDER}\}}\${{0,2}}|####"
# Only a verb that begins a sentence has a capital letter, so that the search takes linear time.
VERB = "Let's think|Think|Reason|Please|Remember|You must|Put|Output|Return|Write|Give|Present"
REQUEST = re.compile(
    rf"\b(?:{VERB})\b(?:{WORD}|{MARK}|[ \t,:;'\"`()*\u201c\u201d-])*+(?:[.!]++[\"'\u201d)]*+|(?=\n)|\Z)[ \t]*+"
)
ANSWER = re.compile(r"(?i)\b(?:answer|response)")


def strip_instruction(prompt: str) -> str:
    """Return a prompt without its instruction. A prompt without a known instruction is returned unchanged."""
    before = WORDINGS_BEFORE.match(prompt)
    text = prompt[before.end() if before else 0 :].strip().removesuffix(WORDING_AFTER)
    return REQUEST.sub(lambda sentence: "" if _asks_for_mark(sentence[0]) else sentence[0], text).strip()


def _asks_for_mark(sentence: str) -> bool:
    """Return whether a sentence asks for the answer in a box or after ####."""
    return ("boxed{" in sentence or "####" in sentence) and ANSWER.search(sentence) is not None


def add_instruction(problem: str, instruction: str) -> str:
    """Replace `{problem}` in an instruction with the problem. Other braces have no special meaning."""
    return instruction.replace("{problem}", problem)
