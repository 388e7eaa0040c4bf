r"""Finds the answer in a completion.

| format | the answer is |
|---|---|
| `"boxed"` | the content of the last `\boxed{...}` or `\fbox{...}`; nothing if that box is never closed |
| `"answer_line"` | the text after the last `Answer:`, on that line or the next non-empty one, as in DAPO's reward |
| `"either"` | the last box or, in a text without a box, the text after the last `Answer:` |

Thoughts do not count. The answer must come after the last `</think>`, `<|end_of_thought|>` or similar mark. If a
thought is never closed, there is no answer.
"""

import re
from typing import Any

ANSWER = re.compile(r"answer[*_`]*+\s*+[:\uff1a][*_\s]*+", re.IGNORECASE)
# A formula is the answer as a whole. Otherwise the answer is the line.
LINE = re.compile(r"\$\$[^$]*+\$\$|[^\n]*+")
DISPLAY = re.compile(rf"\\\[(?:(?!\\\]).)*+\\\]|{LINE.pattern}", re.DOTALL)
_NAME = "(?:think|thinking|thoughts?|reasoning|scratchpad)"
_OPENING = rf"(?:\w{{1,16}}:)?(?:(?:begin|start)_(?:of_)?)?{_NAME}"
_CLOSING = rf"/(?:\w{{1,16}}:)?{_NAME}|end_(?:of_)?{_NAME}"
THOUGHT = re.compile(
    rf"[<\[◁]\|?(?:(?P<closing>{_CLOSING})|{_OPENING})\|?[>\]▷]"
    # The channels of gpt-oss. The last one is the answer.
    r"|<\|channel\|>(?:(?P<answer>final)|analysis|commentary)",
    re.IGNORECASE,
)
BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*+(?P<brace>\{)?")
# The longest answer of a box without a brace, in characters.
LONGEST_UNBRACED = 200


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}` in a text, or `None` if there is none.

    `\fbox` and `\framebox` are boxes as well. If the brace of the last box is never closed, the result is `None`. A
    box without a brace, as in `$\boxed 7$`, holds the rest of its formula. It is skipped if words follow, because it
    only mentions a box. The time is linear in the length of the text.
    """
    for box in reversed(list(BOX.finditer(text))):
        if box["brace"]:
            return until_closed(text, box.end())
        if (answer := _unbraced(text[box.end() : box.end() + LONGEST_UNBRACED])) is not None:
            return answer
    return None


def _unbraced(after_box: str) -> str | None:
    """Return the answer at the start of the text after a box without a brace, or `None` if there is none."""
    answer = re.split(r"\$|\\[)\]]|\n", after_box, maxsplit=1)[0].rstrip(" .")
    has_words = re.search(r"(?<![\\A-Za-z])[A-Za-z]{2,}", answer)
    is_cut_off = len(after_box) == LONGEST_UNBRACED and answer == after_box
    return None if has_words or is_cut_off or not re.match(r"[\w\\+(-]", answer) else answer


def until_closed(text: str, start: int) -> str | None:
    """Return the text from `start` to the brace that closes it, or `None` if it is never closed."""
    depth = 1
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, start):
        # An escaped brace does not count.
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return text[start : match.start()]
    return None


def has_box(text: str) -> bool:
    r"""Return whether a text has a `\boxed`, an `\fbox` or a `\framebox`."""
    return BOX.search(text) is not None


def answer_line(text: str) -> str | None:
    """Return the text after the last `Answer:`, or `None` if there is none. The time is linear in its length."""
    # A formula is only looked for where one ends, because each search would otherwise read the rest of the text.
    last_end = text.rfind("\\]")
    answer = None
    start = 0
    while (label := ANSWER.search(text, start)) is not None:
        content = (DISPLAY if label.end() < last_end else LINE).match(text, label.end())
        # The pattern of a line matches everywhere.
        assert content is not None
        answer = content[0]
        start = content.end()
    return None if answer is None else bare(answer.strip("*_` \t\r"))


def after_thought(text: str) -> str:
    """Return the text after the last thought.

    It is empty if the last thought is not closed, and the whole text if there is no thought.
    """
    marks = list(THOUGHT.finditer(text))
    if not marks:
        return text
    last_mark = marks[-1]
    return text[last_mark.end() :] if last_mark["closing"] or last_mark["answer"] else ""


def begins_mark(token: str) -> bool:
    """Return whether a token is a mark of a thought, or begins one, as `<|channel|>` begins those of gpt-oss."""
    # A channel's mark is this token and the name of the channel behind it.
    return THOUGHT.match(f"{token}final") is not None


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
    return last_boxed(text) if has_box(text) else answer_line(text)


ANSWER_FORMATS = {"boxed": last_boxed, "answer_line": answer_line, "either": either}


def boxed(answer: Any) -> str:
    r"""Wrap an answer in `\boxed{}`, because math-verify misreads some bare answers in data sets."""
    return rf"\boxed{{{bare(str(answer))}}}"


def text_of(completion: str | list[dict[str, Any]]) -> str:
    """Return the text of a completion, which is a string or a list of messages.

    The text of a list is the content of its last message, which may be a list of parts. It is empty if that is no
    message of the assistant, as after a tool whose output has filled the completion.
    """
    if isinstance(completion, str):
        return completion
    last = completion[-1] if completion else {}
    content = last.get("content") if last.get("role", "assistant") == "assistant" else None
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""
