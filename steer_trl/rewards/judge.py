r"""Compares an answer with the gold answer, inside the worker processes: reads both, then compares them by their kind.

`docs/math.md` has a table of the answers that are accepted.
"""

import logging
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from sympy import Rational

from steer_trl.rewards import formulas
from steer_trl.rewards.numerals import Number
from steer_trl.rewards.reading import (
    VARIABLE,
    Approximation,
    Choice,
    Equation,
    Formula,
    Group,
    Measure,
    Measures,
    Reading,
    Word,
    read,
    read_normalized,
    squash,
)
from steer_trl.rewards.units import convert

UNORDERED = ",", "{}", "union"
GREEK = "|".join(formulas.GREEK)
COMPUTED = re.compile(r"\\(?:frac|sqrt|cdot|binom)(?![A-Za-z])")
FUNCTION = re.compile(rf"\\(?!(?:{GREEK})(?![A-Za-z]))[A-Za-z]+(?:_\{{[^{{}}]*\}}|_ ?\w)?")
UNKNOWN = re.compile(
    rf"(?P<name>«[^«»]*»|\\(?:{GREEK})(?![A-Za-z])|[A-Za-z])(?:_\{{[^{{}}]*\}}|_ ?\w)?'*"
    r"(?:(?:\^\{[^{}]*\})?\((?![^()]*(?P=name))[^()]*\))?"
)
CONSTANTS = {"e", "i", r"\pi"}
COINCIDENCE = 1e-9  # relative tolerance between amounts in different units


class Judgement(NamedTuple):
    """The result for one answer: whether it equals the gold answer, and its name in a majority vote."""

    correct: bool
    vote: str


def judge(answer: str, gold: str) -> Judgement:
    """Compare an answer with the gold answer, both without their box.

    May run forever, or use up all memory.
    """
    # math-verify warns that it runs without a deadline. The worker process has one.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    try:
        given, wanted = read(answer), read_gold(gold)
        if isinstance(given, Number) and isinstance(wanted, Group):
            given = read(answer.replace(",", ", "))  # `1,234` is a list if the gold answer is one
        return Judgement(is_equal(given, wanted), name(given))
    except Exception:  # an unreadable answer (nested too deep, too large, no LaTeX) is not the gold answer
        return Judgement(False, answer)


read_gold = lru_cache(maxsize=64)(read)


def is_equal(answer: Reading, gold: Reading) -> bool:
    """Return whether an answer equals the gold answer, which decides what the answer may leave out."""
    answer, gold = _member(answer), _member(gold)
    if isinstance(answer, Approximation) or isinstance(gold, Approximation):
        return _is_equal_approximation(answer, gold)
    if isinstance(answer, Choice) or isinstance(gold, Choice):
        return _is_equal_choice(answer, gold)
    if isinstance(answer, (Measure, Measures)) or isinstance(gold, (Measure, Measures)):
        return _is_equal_measure(answer, gold)
    if isinstance(answer, Equation) or isinstance(gold, Equation):
        return _is_equal_equation(answer, gold)
    if isinstance(answer, Group) or isinstance(gold, Group):
        return _is_equal_group(answer, gold)
    if isinstance(answer, Number) and isinstance(gold, Number):
        return _is_equal_number(answer, gold)
    if isinstance(answer, Word) and isinstance(gold, Word):
        one, other = (squash(re.sub("^(an?|the) ", "", word.text)).strip(".!") for word in (answer, gold))
        is_text = len(one) > 2 or answer.is_marked or gold.is_marked
        return one == other or (is_text and one.casefold() == other.casefold())
    return _is_equal_formula(answer, gold)


def _is_equal_number(answer: Number, gold: Number) -> bool:
    if gold.base and not answer.base:
        return str(answer.value) == gold.numeral
    if answer.base and not gold.base and answer.numeral == str(gold.value):
        return True
    values = {answer.value}
    if answer.is_percent != gold.is_percent:  # 50 % equals both 50 and 0.5
        values.add(answer.value / 100 if answer.is_percent else answer.value * 100)
    tolerance = max(answer.step, gold.step) / 2 if answer.step != gold.step else 0
    return any(abs(value - gold.value) <= tolerance for value in values)


def _is_equal_approximation(answer: Reading, gold: Reading) -> bool:
    """Compare the sides of `a ≈ b` with the gold answer, if each is a rounded form of the one before it."""
    if isinstance(gold, Approximation):
        return any(is_equal(answer, side) for side in gold.sides)
    assert isinstance(answer, Approximation)
    sides = [side.value if isinstance(side, Equation) else side for side in answer.sides]
    if isinstance(sides[0], (Word, Formula)) and VARIABLE.fullmatch(sides[0].text):
        del sides[0]
    values = [_value(side) for side in sides]
    pairs = pairwise(values)
    if None in values or not all(abs(exact - rounded) <= _last_place(rounded) / 2 for exact, rounded in pairs):
        return False
    return any(is_equal(side, gold) for side in sides)


def _last_place(value: Any) -> Any:
    """Return the unit of the last digit that is not zero."""
    place = Rational(1)
    while value and value % place and place > Rational(1, 10**15):
        place /= 10
    while value and value % (place * 10) == 0:
        place *= 10
    return place


def _is_equal_choice(answer: Reading, gold: Reading) -> bool:
    if isinstance(answer, Choice) and isinstance(gold, Choice):
        if answer.content is None or gold.content is None:
            return answer.letter == gold.letter
        return answer.letter == gold.letter and is_equal(answer.content, gold.content)
    if isinstance(gold, Choice):
        letter = squash(answer.text) if isinstance(answer, (Formula, Word)) else None
        return is_equal(answer, gold.content) if gold.content is not None else letter == gold.letter
    assert isinstance(answer, Choice)
    if answer.content is not None:
        return is_equal(answer.content, gold)
    if isinstance(gold, Equation):
        return is_equal(answer, gold.value)
    return isinstance(gold, (Formula, Word)) and squash(gold.text) == answer.letter


def _member(reading: Reading) -> Reading:
    """Return the member of a set with one member; any other reading as it is."""
    if not isinstance(reading, Group) or reading.kind != "{}" or len(reading.parts) != 1:
        return reading
    (member,) = reading.parts
    return reading if member == Formula(r"\emptyset") else member


def _is_equal_measure(answer: Reading, gold: Reading) -> bool:
    if isinstance(answer, Measures) or isinstance(gold, Measures):
        return _is_equal_sum(answer, gold)
    if not isinstance(answer, Measure):
        assert isinstance(gold, Measure)
        return is_equal(answer, gold.amount)
    if not isinstance(gold, Measure):
        return is_equal(answer.amount, gold)
    if answer.unit == gold.unit or not answer.unit or not gold.unit:
        return is_equal(answer.amount, gold.amount)
    value, wanted = _value(answer.amount), _value(gold.amount)
    return None not in (value, wanted) and _coincide(convert(float(value), answer.unit, gold.unit), float(wanted))


def _coincide(value: float | None, wanted: float) -> bool:
    return value is not None and abs(value - wanted) <= COINCIDENCE * max(abs(value), abs(wanted))


def _is_equal_sum(answer: Reading, gold: Reading) -> bool:
    """Compare measures in several parts by their sums, in the unit of the gold answer's first part."""
    unit = next((part.unit for part in _parts(gold)), "")
    sums = [_sum(reading, unit) for reading in (answer, gold)]
    return sums[1] is not None and _coincide(sums[0], sums[1])


def _parts(reading: Reading) -> tuple[Measure, ...]:
    return reading.parts if isinstance(reading, Measures) else (reading,) if isinstance(reading, Measure) else ()


def _sum(reading: Reading, unit: str) -> float | None:
    values = [_convert(part, unit) for part in _parts(reading)]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _convert(part: Measure, unit: str) -> float | None:
    value = _value(part.amount)
    return convert(float(value), part.unit, unit) if value is not None and part.unit and unit else None


def _is_equal_equation(answer: Reading, gold: Reading) -> bool:
    if isinstance(answer, Equation) and not _is_true(answer):
        return False
    if isinstance(answer, Equation) and isinstance(gold, Equation):
        if answer.name == gold.name:
            return is_equal(answer.value, gold.value)
        if len(answer.sides) == len(gold.sides) == 2 and _are_equal_texts(
            *("=".join(one.sides) for one in (answer, gold))
        ):
            return True
        return ("«" in answer.sides[0] or "«" in gold.sides[0]) and is_equal(answer.value, gold.value)
    if isinstance(gold, Equation):
        return _is_name(gold.sides[0]) and is_equal(answer, gold.value)
    assert isinstance(answer, Equation)
    return not _is_unsolved(answer.sides[0]) and is_equal(answer.value, gold)


def _is_name(side: str) -> bool:
    """Return whether a side of an equation is a name, such as `f(3)` or `AB`, and not a number or an operation."""
    return bool(_unknowns(side)) and not re.search(r"[\d+/^!-]", UNKNOWN.sub("", _operations(side)))


def _is_unsolved(side: str) -> bool:
    """Return whether a side is computed from one unknown, as `x^2` is: its equation still has to be solved."""
    return len(_unknowns(side) - CONSTANTS) == 1 and not _is_name(side)


def _unknowns(side: str) -> set[str]:
    return {squash(match[0]) for match in UNKNOWN.finditer(_operations(side))}


def _operations(side: str) -> str:
    """Return a side with `/` in place of each command for an operation, and without function names."""
    return FUNCTION.sub("", COMPUTED.sub("/", side))


def _is_true(equation: Equation) -> bool:
    """Return whether all sides without letters are numbers, and the same number."""
    sides = [
        side for side in equation.sides if not re.search(r"(?<![\\A-Za-z])[A-Za-z]|«[A-Za-z]»", _drop_units(side))
    ]
    readings = [read_normalized(side) for side in sides]
    values = [_value(reading) for reading in readings if not isinstance(reading, Group)]
    return None not in values and len(set(map(_round_value, values))) < 2


def _drop_units(side: str) -> str:
    reading = read_normalized(side)
    return "" if isinstance(reading, (Number, Measure)) else side


def _round_value(value: Any) -> Any:
    return value if value.is_Rational else value.round(12)


def _is_equal_group(answer: Reading, gold: Reading) -> bool:
    if not isinstance(answer, Group) or not isinstance(gold, Group):
        return False
    if answer.name and gold.name and answer.name != gold.name:
        return False
    if "union" in (answer.kind, gold.kind) and answer.kind != gold.kind:
        return False
    is_ordered = answer.kind not in UNORDERED or gold.kind not in UNORDERED
    named = [_is_named(group) for group in (answer, gold)]
    wanted = gold
    if named[0] != named[1]:
        answer, gold = (
            _values(group) if is_named else group for group, is_named in zip((answer, gold), named, strict=True)
        )
        is_ordered = named[1] or gold.kind not in UNORDERED
    elif is_ordered and answer.kind != gold.kind:
        return False
    if len(answer.parts) != len(gold.parts):
        return False
    if named[1] and not named[0] and answer.kind == "," and all(map(is_equal, answer.parts, wanted.parts)):
        return True  # `-5, 14/3` for `x=-5, p=14/3`, in the order of the gold answer
    if all(map(is_equal, answer.parts, gold.parts)):
        return True
    return not is_ordered and _match(list(answer.parts), gold.parts)


def _match(answers: list[Reading], golds: Sequence[Reading]) -> bool:
    """Return whether each gold answer can be paired with a different answer that equals it, in any order."""
    for gold in golds:
        found = next((index for index, answer in enumerate(answers) if is_equal(answer, gold)), None)
        if found is None:
            return False
        del answers[found]
    return True


def _is_named(group: Group) -> bool:
    """Return whether a list gives the values of different variables, as `x=1, y=2`."""
    names = [part.name for part in group.parts if isinstance(part, Equation)]
    return group.kind not in ("{}", "union") and len(set(names)) == len(group.parts)


def _values(group: Group) -> Group:
    """Return the values of a system's solution as a tuple, in the order of its variables' names."""
    equations = [part for part in group.parts if isinstance(part, Equation)]
    return Group("()", tuple(equation.value for equation in sorted(equations, key=lambda one: one.name)))


def _is_equal_formula(answer: Reading, gold: Reading) -> bool:
    if isinstance(gold, Number) and gold.base:
        return _text(answer) == gold.numeral
    ours, theirs = _text(answer), _text(gold)
    if ours and squash(ours) == squash(theirs):
        return True
    if any(isinstance(reading, Word) and reading.is_marked for reading in (answer, gold)):
        return False
    values = [
        _value(reading) if isinstance(reading, Number) else formulas.parse(_text(reading))
        for reading in (answer, gold)
    ]
    if None in values:
        return False
    step = max((reading.step for reading in (answer, gold) if isinstance(reading, Number)), default=Fraction(0))
    return formulas.are_equal(values[0], values[1], step)


def _are_equal_texts(answer: str, gold: str) -> bool:
    ours, theirs = formulas.parse(answer), formulas.parse(gold)
    return ours is not None and theirs is not None and formulas.are_equal(ours, theirs)


def _text(reading: Reading) -> str:
    return reading.text if isinstance(reading, (Formula, Word)) else ""


def _value(reading: Reading) -> Any:
    """Return the value of a reading as a SymPy number, `None` if it is not a number."""
    if isinstance(reading, Number):
        value = reading.value / 100 if reading.is_percent else reading.value
        return Rational(value.numerator, value.denominator)
    if isinstance(reading, Measure):
        return _value(reading.amount)
    if isinstance(reading, Equation):
        return _value(reading.value)
    return formulas.number(reading.text) if isinstance(reading, Formula) else None


def name(reading: Reading) -> str:
    """Return an answer's name in a majority vote: for a number its value, so that `x=0.5` and `1/2` are the same."""
    match reading:
        case Number():
            return f"{reading.value}{'%' if reading.is_percent else ''}"
        case Measure():
            return name(reading.amount)
        case Measures():
            return " ".join(f"{name(part.amount)} {part.unit}" for part in reading.parts)
        case Choice():
            return reading.letter
        case Equation():
            return name(reading.value)
        case Approximation():
            return name(reading.sides[0])
        case Word():
            return squash(reading.text)
        case Group():
            names = [name(part) for part in reading.parts]
            return f"{reading.kind}[{'; '.join(sorted(names) if reading.kind in UNORDERED else names)}]"
        case Formula():
            value = formulas.number(reading.text)
            return str(value) if value is not None and value.is_Rational else squash(reading.text)
