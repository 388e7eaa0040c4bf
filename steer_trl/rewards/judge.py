r"""Is an answer equal to the gold answer? math-verify decides; this file runs inside the worker processes.

Two things are settled before it is asked. A false equation is incorrect: math-verify compares the last side of a
chain, so that `\boxed{33=34}` would pass for 34. And small spaces between digits group them: math-verify reads
`10\,000` as 10 times 000, and `33\,1` as 33 and 1, which is 34.
"""

import logging
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from latex2sympy2_extended import NormalizationConfig
from latex2sympy2_extended.logic import And
from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, Eq, Number, Symbol, nsimplify, preorder_traversal

EXTRACTION = LatexExtractionConfig(
    boxed_match_priority=0,  # the box first: there is nothing else in what is parsed here
    try_extract_without_anchor=False,
    normalization_config=NormalizationConfig(
        basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="all", equations=False
    ),
)
EQUALS = r"(?<![\\<>!])=|\\equiv(?![A-Za-z])|≡"
# As LaTeX sets them: it drops plain spaces.
SPACE = r"(?:\\[,:;>! ]|\\thinspace(?![A-Za-z])|[~\s])"
GAP = rf"(?:{SPACE}|\{{{SPACE}\}})+"
# Digits without braces after `^`, `\frac` and their like end there (`2^3\,5` is 40).
ARGUMENTS = rf"(?:[\^_]|\\(?:sqrt|[dtc]?frac|[dt]?binom)(?:{SPACE}*\d)?){SPACE}*\d+(?:{GAP})?"
GROUPED_DIGITS = re.compile(rf"({ARGUMENTS})|(?<=\d){GAP}(?=\d)")
TEXT = r"\\(?:text\w*|mathrm|mbox)\s*\{([^{}]*)\}"


class Judgement(NamedTuple):
    """`correct`: whether the answer equals the gold one; `vote`: the answer itself, for a majority vote."""

    correct: bool
    vote: str


def judge(answer: str, gold: str) -> Judgement:
    """Compare an answer with the gold answer, both without their box. May take for ever, or all memory."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that it has no deadline: the process has one
    try:
        parsed, answer = _read(answer), _tidy(answer)
        correct = bool(parsed) and not is_false_equation(answer, parsed[0])
        # math-verify drops text as a unit, be it `\text{ or 33}`.
        correct = correct and not (_has_numbers_in_text(answer) and not _has_numbers_in_text(gold))
        return Judgement(correct and verify(_read_gold(gold), parsed, timeout_seconds=None), _vote(parsed, answer))
    except Exception:  # whatever is in it (nested too deep, too large, no LaTeX at all), it is not the gold answer
        return Judgement(False, answer)


def is_readable(gold: str) -> bool:
    """Whether a gold answer is there, is no prose, equals itself, and can be compared with another one in time.

    math-verify alone is no test: it reads a sentence as a product of letters, which equals itself.
    """
    outside_text = re.sub(r"\\(text|mathrm|mbox|textbf|operatorname)\s*\{[^}]*\}", "", gold)
    is_prose = re.search(r"(?<![\\A-Za-z])[A-Za-z]{2,}\s+[A-Za-z]{2,}", outside_text)
    if is_prose or not re.search(r"\w", gold):
        return False
    judge("1", gold)  # a tower of powers equals itself at once, and takes for ever to compare with anything else
    return judge(gold, gold).correct


def is_false_equation(answer: str, expression: Any) -> bool:
    """Whether an equation equates different numbers, as `33=34` and `x=33=34` do; `x=34` and `2+2=4` do not."""
    if isinstance(expression, str):  # not read as mathematics: it can only be equal sign by sign
        return False
    chains = list(_chains(expression))
    if not chains:
        # math-verify reads only what follows the last sign when it cannot read the whole: `?=33=34`.
        return bool(re.search(EQUALS, re.sub(r"\{[^{}]*\}", "", answer)))
    # `\gcd(a,b)` is read as the number 1: a number is what is written without letters.
    sides = re.split(EQUALS, re.sub(rf"{TEXT}|_\{{[^{{}}]*\}}", "", answer))
    written = [side for side in sides if not re.search(r"(?<!\\)\b[A-Za-z]", side)]
    if len(written) < 2:
        return False
    equated = [[side for equation in chain for side in equation.args] for chain in chains]
    equated.append([parsed[0] for side in written if (parsed := _read(side))])  # `33\text{ cm}=34`
    return any(_differ([side for side in group if getattr(side, "is_number", False)]) for group in equated)


def _differ(numbers: list[Any]) -> bool:
    return any(not verify(numbers[-1], number, timeout_seconds=None) for number in numbers[:-1])


def _chains(expression: Any) -> Iterator[list[Eq]]:
    """The equations of each chain `a=b=c`; `x=1, y=2` are two chains."""
    if isinstance(expression, (Eq, And)):
        yield [node for node in preorder_traversal(expression) if isinstance(node, Eq)]
    elif isinstance(expression, Basic):
        for part in expression.args:
            yield from _chains(part)


def _tidy(answer: str) -> str:
    """Without the full stop of a sentence, and without spaces between digits."""
    return GROUPED_DIGITS.sub(r"\1", re.sub(r"(?<!\.)\.$", "", answer.strip()))


def _read(answer: str) -> list[Any]:
    return parse(rf"\boxed{{{_tidy(answer)}}}", [EXTRACTION], parsing_timeout=None)


# The samples of a problem come together. A completion's answer is not kept: `\frac{1}{2^{400000003}}` takes 50 MB.
_read_gold = lru_cache(maxsize=64)(_read)


def _has_numbers_in_text(answer: str) -> bool:
    """Whether a number stands in a text beside another number, as in `34\\text{ or 33}`; `\\text{34}` is only one."""
    in_text = sum(bool(re.search(r"\d", text)) for text in re.findall(TEXT, answer))
    return in_text > 1 or bool(in_text and re.search(r"\d", re.sub(TEXT, "", answer)))


def _vote(parsed: list[Any], answer: str) -> str:
    """Name an answer: a number by its value, be it `x=0.5` or `1/2`, anything else as math-verify normalises it."""
    value = parsed[0] if parsed else None
    if isinstance(value, Eq) and isinstance(value.lhs, Symbol):
        value = value.rhs
    if isinstance(value, Number):
        return str(nsimplify(value, rational=True))
    return parsed[-1] if parsed and isinstance(parsed[-1], str) else answer
