r"""Finds the answer in a completion.

| format | the answer is |
|---|---|
| `"boxed"` | the content of the last `\boxed{...}`; nothing if that box is never closed |
| `"answer_line"` | the text after the last `Answer:`, on that line or the next non-empty one, as in DAPO's reward |
| `"either"` | the last box or, in a text without a box, the text after the last `Answer:` |

Thoughts do not count. The answer must come after the last `</think>`. If a thought is never closed, there is no
answer.
"""

import re
from typing import Any

ANSWER_LINE = re.compile(
    r"answer[*_`]*\s*[:\uff1a][*_\s]*(\$\$[^$]*\$\$|\\\[(?:(?!\\\]).)*\\\]|[^\n]*)", re.IGNORECASE | re.DOTALL
)
THOUGHT = re.compile(r"[<\[◁]\|?(?P<closing>/)?(?:\w+:)?(?:think|thinking|thought|reasoning)\|?[>\]▷]", re.IGNORECASE)
BOX = "\\boxed"


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}` in a text, or `None` if there is none.

    If the brace of the last box is never closed, the result is `None`. A `\boxed` without a brace is skipped, because
    it only mentions a box. The time is linear in the length of the text.
    """
    start = text.rfind(BOX)
    while start >= 0:
        opening = start + len(BOX)
        while opening < len(text) and text[opening].isspace():
            opening += 1
        if text[opening : opening + 1] == "{":
            return until_closed(text, opening + 1)
        start = text.rfind(BOX, 0, start)
    return None


def until_closed(text: str, start: int) -> str | None:
    """Return the text from `start` to the brace that closes it, or `None` if it is never closed."""
    depth = 1
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, start):
        # An escaped brace does not count.
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return text[start : match.start()]
    return None


def answer_line(text: str) -> str | None:
    """Return the text after the last `Answer:`, or `None` if there is none."""
    lines = ANSWER_LINE.findall(text)
    return bare(lines[-1].strip("*_` \t\r")) if lines else None


def after_thought(text: str) -> str:
    """Return the text after the last thought.

    It is empty if the last thought is not closed, and the whole text if there is no thought.
    """
    marks = list(THOUGHT.finditer(text))
    if not marks:
        return text
    return text[marks[-1].end() :] if marks[-1]["closing"] else ""


def bare(answer: str) -> str:
    r"""Return an answer without its `\boxed{}` or, if it has no box, without its enclosing dollar signs."""
    answer = answer.strip()
    inside = last_boxed(answer)
    if inside is not None:
        return inside.strip()
    dollars = re.fullmatch(r"(\$\$?)((?:[^$\\]|\\.)+)\1", answer, re.DOTALL)
    return dollars[2].strip() if dollars else answer


def either(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}` or, without a box, the text after the last `Answer:`."""
    return last_boxed(text) if BOX in text else answer_line(text)


ANSWER_FORMATS = {"boxed": last_boxed, "answer_line": answer_line, "either": either}


def boxed(answer: Any) -> str:
    r"""Wrap an answer in `\boxed{}`, because math-verify misreads some bare answers in data sets."""
    return rf"\boxed{{{bare(str(answer))}}}"


def text_of(completion: str | list[dict[str, Any]]) -> str:
    """Return the text of a completion, which is a string or a list of messages.

    The text of a list is the content of its last message, which may be a list of parts.
    """
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") if completion else None
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""
