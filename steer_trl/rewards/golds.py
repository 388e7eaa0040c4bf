r"""Checks whether a gold answer can be scored. It must equal the same answer, written in another notation.

It is not enough that a gold answer equals itself, because `proof` and the tests of a program also equal themselves.
"""

import re

from steer_trl.rewards import formulas
from steer_trl.rewards.judge import judge, read_gold
from steer_trl.rewards.normalization import TABLE, normalize_layout
from steer_trl.rewards.numerals import Number
from steer_trl.rewards.reading import Approximation, Choice, Equation, Group, Measure, Reading, Word

NOTHING, PROOFS = set(TABLE["nothing"]), set(TABLE["proofs"])
NO_ANSWER, PROGRAM, PROOF, STRUCTURE = "no answer", "program", "proof", "structure"
ONLY_ITSELF, TOO_LONG = "only equal to itself", "not compared in time"

PROGRAM_TEXT = re.compile(
    r"^\s*((async )?def |import |from \w+ import|class \w+[:(]|#include|```\w*\s|print\(|lambda |for \w+ in |@\w+\s|"
    r"(public|function|const|let|var|fn|int main)\b|SELECT )|\bassert |\b(stdin|stdout)\b|\binput\(\)"
)
PROGRAM_KEY = re.compile(r"""["'](inputs?|outputs?|fn_name|testtype|assert_case|test_cases)["']""")
STRUCTURE_TEXT = re.compile(r"\s*[\[{][\[{\s]*['\"]")
TEXT_COMMAND = re.compile(r"\\(?:text\w*|mathrm|mbox|operatorname)\s*\{[^{}]*\}")
BRACKETS = {"{}": (r"\{", r"\}"), ",": ("", ""), "union": ("", ""), "difference": ("", ""), "condition": ("", "")}
SEPARATORS = {"union": r" \cup ", "difference": r" \setminus "}
MOST_ZEROS = 100
"""With more zeros at its end, a number is written with a power of ten."""
BARE_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}\s+[A-Za-z]{2,}")


def find_fault(gold: str) -> str | None:
    """Return the reason why a gold answer cannot be scored, or `None` if it can be.

    The answer is given without its box. The call may run forever.
    """
    words = re.sub(r"[^a-z0-9/ ]", "", normalize_layout(gold).replace("~", " ").lower())
    if (fault := _kind_of_no_answer(words.strip(), gold)) is not None:
        return fault
    # A tower of powers equals itself immediately, but any other comparison with it never finishes. This comparison
    # with "1" then runs into the caller's time limit.
    judge("1", gold)
    reading = read_gold(gold)
    if not isinstance(reading, (Number, Measure, Choice)) and BARE_PROSE.search(TEXT_COMMAND.sub("", gold)):
        return ONLY_ITSELF
    rewritten = write(reading)
    can_be_scored = rewritten is not None and judge(gold, gold).correct and judge(rewritten, gold).correct
    return None if can_be_scored else ONLY_ITSELF


def _kind_of_no_answer(text: str, gold: str) -> str | None:
    if text in PROOFS or re.match(r"(see|refer to) (the )?(proof|solution)|prove that|proof ", text):
        return PROOF
    if not re.search(r"\w", gold) or text in NOTHING:
        return NO_ANSWER
    if PROGRAM_TEXT.search(gold):
        return PROGRAM
    if STRUCTURE_TEXT.match(gold):
        return PROGRAM if PROGRAM_KEY.search(gold) else STRUCTURE
    return None


def write(reading: Reading) -> str | None:
    """Return an answer in another notation that a model might use; `None` if there is none."""
    match reading:
        case Number():
            return _write_number(reading)
        case Measure():
            return write(reading.amount)
        case Approximation():
            return write(reading.sides[0])
        case Choice():
            return rf"\text{{({reading.letter})}}"
        case Word():
            return rf"\text{{{reading.text}}}"
        case Equation():
            value = write(reading.value)
            return value and f"{reading.sides[0]} = {value}"
        case Group():
            parts = [write(part) for part in reading.parts]
            separator = SEPARATORS.get(reading.kind, ", ")
            opening, closing = BRACKETS.get(reading.kind) or (reading.kind[0], reading.kind[1])
            return None if None in parts else f"{opening}{separator.join(map(str, parts))}{closing}"
    if reading.text.lstrip("+-").strip() in (r"\infty", r"\emptyset"):
        return reading.text
    parsed = formulas.parse(reading.text)
    if isinstance(parsed, formulas.Expr):
        return rf"1 \cdot \left({reading.text}\right)"
    return None if parsed is None else rf"\, {reading.text} \,"


def _write_number(number: Number) -> str:
    if number.base:
        return number.numeral
    value = number.value
    if value.denominator == 1:
        power = _count_zeros(value.numerator)
        tens = rf" \cdot 10^{{{power}}}" if power > MOST_ZEROS else ""
        plain = f"{value.numerator // 10**power}.0{tens}" if tens else f"{value}.0"
    else:
        plain = rf"\dfrac{{{value.numerator}}}{{{value.denominator}}}"
    return plain + (r"\%" if number.is_percent else "")


def _count_zeros(value: int) -> int:
    """Return the number of zeros at the end of a number."""
    count = 0
    while value and value % 10 == 0:
        value, count = value // 10, count + 1
    return count
