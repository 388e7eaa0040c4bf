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
# A closing sentence asks for the answer in \\boxed{}, or after GSM8K's ####. Each part is searched for behind the one
# before, because one pattern for all of them would need quadratic time.
SENTENCE = re.compile(r"[^.?!]+")
VERB = re.compile(r"(?:Let's think|Think|Reason|Please|Remember|You must|Put|Output|Return|Write|Give|Present)\b")
ANSWER = re.compile(r"\b(?:answer|response)\b")
MARK = re.compile(r"\\boxed\{[^{}]*\}|####")
START_OF_MARK = re.compile(r"\\boxed\{|####")


def strip_instruction(prompt: str) -> str:
    """Return a prompt without its instruction. A prompt without a known instruction is returned unchanged."""
    before = WORDINGS_BEFORE.match(prompt)
    text = prompt[before.end() if before else 0 :].strip()
    start_of_line = text.rfind("\n") + 1
    start = _find_request(text[start_of_line:])
    if start is None:
        return text.removesuffix(WORDING_AFTER).strip()
    return text[: start_of_line + start].strip()


def _find_request(line: str) -> int | None:
    """Return where the sentence begins that asks for the answer at the end of a line, or `None`."""
    last_question = max(line.rfind("?"), line.rfind("!"))
    for sentence in SENTENCE.finditer(line):
        verb = VERB.search(line, *sentence.span())
        answer = ANSWER.search(line, verb.end(), sentence.end()) if verb else None
        if verb is None or answer is None:
            continue
        for start in START_OF_MARK.finditer(line, answer.end(), sentence.end()):
            mark = MARK.match(line, start.start())
            if mark and mark.end() > last_question:
                return verb.start()
    return None


def add_instruction(problem: str, instruction: str) -> str:
    """Replace `{problem}` in an instruction with the problem. Other braces have no special meaning."""
    return instruction.replace("{problem}", problem)
