r"""Decides whether an answer equals the gold answer. This code runs in the worker processes.

Both answers are read (`reading.py`) and then compared according to their kinds. `docs/data.md` lists the answers that
are accepted.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from sympy import Complement, FiniteSet, Interval, Rational, Union, oo

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
    Reading,
    Word,
    read,
    read_normalized,
    squash,
)
from steer_trl.rewards.units import convert

UNORDERED = ",", "{}", "union"
# The relative tolerance between amounts in different units, whose ratio may be irrational, as of degrees and radians.
COINCIDENCE = Fraction(1, 10**20)
ARTICLE = re.compile("^(an?|the) ")
LETTER = re.compile(r"(?<![\\A-Za-z])[A-Za-z]|«[A-Za-z]»")

GREEK = "|".join(sorted(formulas.GREEK))
FUNCTION = re.compile(rf"\\(?!(?:{GREEK})(?![A-Za-z]))[A-Za-z]+(?:_\{{[^{{}}]*\}}|_ ?\w)?")
UNKNOWN = re.compile(
    rf"(?P<name>«[^«»]*»|\\(?:{GREEK})(?![A-Za-z])|[A-Za-z])(?:_\{{[^{{}}]*\}}|_ ?\w)?'*"
    r"(?:(?:\^\{[^{}]*\})?\((?![^()]*(?P=name))[^()]*\))?"
)
# A letter that is no part of a command.
LONE_LETTER = re.compile(r"(?<![\\A-Za-z])[A-Za-z]|(?<=[A-Za-z])(?<!\\[A-Za-z])[A-Za-z](?![A-Za-z]*\{)")
DEFINITION = re.compile(r"([A-Za-z])\(([a-z](?:,[a-z])*)\)")
CONSTANTS = {"e", "i", r"\pi"}
LARGEST_NAME = 10_000
"""The number of bits up to which the integers of a name are written in decimal."""


class AnswerMatch(NamedTuple):
    """The result for one answer: whether it equals the gold answer, and its name in a majority vote."""

    correct: bool
    vote: str


def judge(answer: str, gold: str) -> AnswerMatch:
    """Compare an answer with the gold answer, both without their box.

    The call may run forever, or use up all memory.
    """
    try:
        answer_reading, gold_reading = read(answer), read_gold(gold)
        if isinstance(answer_reading, Number) and isinstance(gold_reading, Group):
            # `1,234` is a list if the gold answer is one.
            answer_reading = read(answer.replace(",", ", "))
        is_correct = is_equal(answer_reading, gold_reading)
    except Exception:
        # An answer that cannot be read is incorrect. It may be nested too deeply, too large, or not LaTeX.
        return AnswerMatch(False, answer)
    return AnswerMatch(is_correct, name(answer_reading))


read_gold = lru_cache(maxsize=64)(read)


def is_equal(answer: Reading, gold: Reading) -> bool:
    """Return whether two readings are equal.

    Readings of the same kind are compared as such. Otherwise the content of the outer reading is compared with the
    other reading. `COMPARISONS` lists the outer kinds first.
    """
    if _has_domain(answer) != _has_domain(gold):
        answer, gold = _without_domain(answer), _without_domain(gold)
    answer, gold = _member(answer), _member(gold)
    options = [_options(reading) for reading in (answer, gold)]
    is_one_a_list = isinstance(answer, Group) != isinstance(gold, Group)
    if is_one_a_list and None not in options:
        return options[0] == options[1]
    for kind, compare in COMPARISONS.items():
        if isinstance(answer, kind) and isinstance(gold, kind):
            return compare(answer, gold)
        if isinstance(answer, kind):
            return any(is_equal(value, gold) for value in _values(answer))
        if isinstance(gold, kind):
            return any(is_equal(answer, value) for value in _values_of_gold(gold))
    return _is_equal_formula(answer, gold)


def _has_domain(reading: Reading) -> bool:
    return isinstance(reading, Group) and reading.kind == "condition"


def _without_domain(reading: Reading) -> Reading:
    return reading.parts[0] if isinstance(reading, Group) and reading.kind == "condition" else reading


def _member(reading: Reading) -> Reading:
    """Return the member of a set that has only one. Any other reading is returned unchanged."""
    if not isinstance(reading, Group) or reading.kind != "{}" or len(reading.parts) != 1:
        return reading
    (member,) = reading.parts
    return reading if member == Formula(r"\emptyset") else member


def _options(reading: Reading) -> list[str] | None:
    """Return the letters of several options, which are written as *A, C* or as *AC*; `None` for anything else."""
    if isinstance(reading, Group):
        parts = reading.parts if reading.kind in (",", "{}") else ()
        letters = [part.letter for part in parts if isinstance(part, Choice) and part.content is None]
        return sorted(letters) if len(letters) == len(reading.parts) > 1 else None
    text = _text(reading)
    # Letters of options are listed in alphabetical order. `CA` is a segment between two points.
    is_list = re.fullmatch("[A-H]{2,}", text) is not None and list(text) == sorted(set(text))
    return list(text) if is_list else None


def _values(answer: Reading) -> Sequence[Reading]:
    """Return the readings inside an answer.

    Examples are the right side of an equation and an amount without its unit. A false or unsolved equation, and a
    wrongly rounded approximation, have none.
    """
    match answer:
        case Approximation():
            return answer.sides if _is_rounded(answer) else ()
        case Equation(sides):
            return (answer.value,) if _is_true(answer) and not _is_unsolved(sides[0]) else ()
    return _values_of_gold(answer)


def _values_of_gold(gold: Reading) -> Sequence[Reading]:
    match gold:
        case Approximation():
            return gold.sides
        case Choice(content=content):
            return () if content is None else (content,)
        case Measure():
            return (gold.amount,)
        case Equation(sides):
            return (gold.value,) if _is_name(sides[0]) else ()
    return ()


# The functions that compare readings of one kind. The outer kinds come first.


def _is_equal_approximation(answer: Approximation, gold: Approximation) -> bool:
    return any(is_equal(value, gold) for value in _values(answer))


def _is_rounded(approximation: Approximation) -> bool:
    """Return whether each side is a rounded form of the one before it."""
    values = [_value(side) for side in approximation.sides]
    if VARIABLE.fullmatch(_text(approximation.sides[0])):
        del values[0]
    return None not in values and all(map(_is_rounding, values, values[1:]))


def _is_rounding(exact: Any, rounded: Any) -> bool:
    """Return whether `rounded` is `exact`, rounded to the digits of `rounded`."""
    if not rounded.is_Rational:
        return False
    last_place = (Decimal(rounded.p) / Decimal(rounded.q)).normalize().as_tuple().exponent
    return bool(abs(exact - rounded) <= Rational(10) ** last_place / 2)


def _is_equal_choice(answer: Choice, gold: Choice) -> bool:
    if answer.letter != gold.letter:
        return False
    return answer.content is None or gold.content is None or is_equal(answer.content, gold.content)


def _is_equal_measure(answer: Measure, gold: Measure) -> bool:
    if answer.unit == gold.unit or not answer.unit or not gold.unit:
        return is_equal(answer.amount, gold.amount)
    answer_amount, gold_amount = _value(answer.amount), _value(gold.amount)
    if answer_amount is None or gold_amount is None:
        return False
    converted = convert(_exact(answer_amount), answer.unit, gold.unit)
    return converted is not None and abs(converted - _exact(gold_amount)) <= COINCIDENCE * abs(converted)


def _exact(value: Any) -> Fraction:
    """Return a SymPy number as a fraction, to all of its digits."""
    return Fraction(str(value))


def _is_equal_equation(answer: Equation, gold: Equation) -> bool:
    if not _is_true(answer):
        return False
    has_words = "«" in answer.name or "«" in gold.name
    if answer.name == gold.name or has_words:
        return is_equal(answer.value, gold.value)
    renamed = _rename_arguments(answer, gold)
    if renamed is not None:
        return is_equal(renamed.value, gold.value)
    if len(answer.sides) > 2 or len(gold.sides) > 2:
        return False
    parsed = [formulas.parse("=".join(equation.sides)) for equation in (answer, gold)]
    return None not in parsed and formulas.are_equal(*parsed)


def _rename_arguments(answer: Equation, gold: Equation) -> Equation | None:
    """Return the definition of a function with the gold answer's arguments, such as $f(t)=2t$ for $f(x)=x$.

    The result is `None` unless both answers define the same function of as many different letters.
    """
    ours, theirs = (DEFINITION.fullmatch(equation.name) for equation in (answer, gold))
    if not (ours and theirs) or ours[1] != theirs[1] or len(answer.sides) > 2:
        return None
    old, new = (match[2].split(",") for match in (ours, theirs))
    body = answer.sides[1]
    is_distinct = len(set(old)) == len(old) == len(new) == len(set(new))
    hidden = set(LONE_LETTER.findall(body)) & set(new) - set(old)
    if not is_distinct or hidden:
        return None
    names = dict(zip(old, new, strict=True))
    side = LONE_LETTER.sub(lambda match: names.get(match[0], match[0]), body)
    return Equation((gold.sides[0], side), read_normalized(side))


def _is_name(side: str) -> bool:
    """Return whether a side of an equation is a name such as `f(3)`, `AB` or `AB/CD`.

    Numbers, sums and powers are not names.
    """
    return bool(_unknowns(side)) and not re.search(r"[\d+^!-]", UNKNOWN.sub("", _operations(side)))


def _is_unsolved(side: str) -> bool:
    """Return whether a side, such as `x^2`, is computed from one unknown.

    Its equation is then not solved yet.
    """
    unknowns = [unknown for unknown in _unknowns(side) if unknown not in CONSTANTS]
    return len(set(unknowns)) == 1 and (len(unknowns) > 1 or not _is_name(side))


def _unknowns(side: str) -> list[str]:
    return [squash(match[0]) for match in UNKNOWN.finditer(_operations(side))]


def _operations(side: str) -> str:
    """Return a side without the names of its functions. Roots become powers."""
    return FUNCTION.sub("", side.replace(r"\sqrt", "^"))


def _is_true(equation: Equation) -> bool:
    """Return whether all sides that are numbers have the same value."""
    readings = [read_normalized(side) for side in equation.sides]
    values = {
        _round_value(_value(reading))
        for reading in readings
        if isinstance(reading, (Number, Measure, Formula)) and not LETTER.search(_text(reading))
    }
    return len(values) < 2


def _round_value(value: Any) -> Any:
    return value if value is None or value.is_Rational else value.round(12)


def _is_equal_group(answer: Group, gold: Group) -> bool:
    if answer.name and gold.name and answer.name != gold.name:
        return False
    if {"union", "difference"} & {answer.kind, gold.kind} and _are_equal_sets(answer, gold):
        return True
    if _is_named(answer) and gold.kind == "()":
        answer = _point(answer)
    elif _is_named(gold) and answer.kind == "()":
        gold = _point(gold)
    may_differ = {answer.kind, gold.kind} <= {",", "{}"}
    if len(answer.parts) != len(gold.parts) or not (answer.kind == gold.kind or may_differ):
        return False
    if all(map(is_equal, answer.parts, gold.parts)):
        return True
    # For example, *2 red, 3 blue* counts things.
    counts_things = any(isinstance(part, Measure) and not part.unit for part in gold.parts)
    is_ordered = gold.kind not in UNORDERED or counts_things or (_is_named(gold) and not _is_named(answer))
    return not is_ordered and _match(list(answer.parts), gold.parts)


def _are_equal_sets(*groups: Group) -> bool:
    """Return whether unions, intervals and sets of real numbers have the same members.

    An end of an interval is replaced by its rank among all ends, because only their order matters.
    """
    values: list[Any] = []
    sets = [_as_set(group, values) for group in groups]
    ranks = _rank(values)
    if None in sets or ranks is None:
        return False
    first, second = (build(ranks) for build in sets if build is not None)
    return bool(first is not None and first == second)


def _as_set(reading: Reading, values: list[Any]) -> Callable[[list[int]], Any] | None:
    """Append the real numbers of a reading to `values`, and return a function that makes the set from their ranks."""
    kind, members = (reading.kind, reading.parts) if isinstance(reading, Group) else ("{}", (reading,))
    if kind == "union":
        parts = [_as_set(part, values) for part in members]
        return None if None in parts else lambda ranks: Union(*(part(ranks) for part in parts if part is not None))
    if kind == "difference":
        whole, removed = (_as_set(part, values) for part in members)
        if whole is None or removed is None:
            return None
        return lambda ranks: Complement(whole(ranks), removed(ranks))
    is_interval = kind in ("()", "[]", "(]", "[)")
    numbers = [_end(member) for member in members]
    if None in numbers or (is_interval and len(members) != 2):
        return None
    offset = len(values)
    values += numbers
    if is_interval:
        return lambda ranks: Interval(ranks[offset], ranks[offset + 1], kind[0] == "(", kind[1] == ")")
    return lambda ranks: FiniteSet(*ranks[offset : offset + len(numbers)])


def _end(reading: Reading) -> Any:
    infinite = {r"\infty": oo, r"-\infty": -oo, r"+\infty": oo}
    text = squash(_text(reading))
    return infinite[text] if text in infinite else _value(reading)


def _rank(values: list[Any]) -> list[int] | None:
    """Return the rank of each real number, which is the same for equal numbers; `None` if one is not real."""
    if not all(value.is_extended_real for value in values):
        return None
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0] * len(values)
    for before, after in pairwise(order):
        is_same = values[before] == values[after] or formulas.are_equal(values[before], values[after])
        ranks[after] = ranks[before] + (not is_same)
    return ranks


def _is_named(group: Group) -> bool:
    """Return whether a list gives the values of different variables, such as `x=1, y=2`."""
    names = {part.name for part in group.parts if isinstance(part, Equation)}
    return group.kind in (",", "()") and len(names) == len(group.parts)


def _point(system: Group) -> Group:
    """Return the solution of a system as a tuple, in the order of its variables' names."""
    equations = [part for part in system.parts if isinstance(part, Equation)]
    return Group("()", tuple(equation.value for equation in sorted(equations, key=lambda equation: equation.name)))


def _match(answers: list[Reading], golds: Sequence[Reading]) -> bool:
    """Return whether each gold answer can be paired with a different answer that equals it, in any order."""
    for gold in golds:
        position = next((index for index, answer in enumerate(answers) if is_equal(answer, gold)), None)
        if position is None:
            return False
        del answers[position]
    return True


COMPARISONS: dict[type[Any], Callable[[Any, Any], bool]] = {
    Approximation: _is_equal_approximation,
    Choice: _is_equal_choice,
    Measure: _is_equal_measure,
    Equation: _is_equal_equation,
    Group: _is_equal_group,
}


def _is_equal_formula(answer: Reading, gold: Reading) -> bool:
    """Return whether two numbers, words or formulas are equal."""
    if isinstance(answer, Number) and isinstance(gold, Number):
        return _is_equal_number(answer, gold)
    if isinstance(answer, Word) and isinstance(gold, Word):
        return _is_equal_word(answer, gold)
    if isinstance(gold, Number) and gold.base:
        return _text(answer) == gold.numeral
    if _text(answer) and squash(_text(answer)) == squash(_text(gold)):
        return True
    if any(isinstance(reading, Word) and reading.is_marked for reading in (answer, gold)):
        return False
    ours, theirs = (
        _value(reading) if isinstance(reading, Number) else formulas.parse(_text(reading))
        for reading in (answer, gold)
    )
    step = max((reading.step for reading in (answer, gold) if isinstance(reading, Number)), default=Fraction(0))
    return ours is not None and theirs is not None and formulas.are_equal(ours, theirs, step)


def _is_equal_number(answer: Number, gold: Number) -> bool:
    if gold.base and not answer.base:
        return str(answer.value) == gold.numeral
    if answer.base and not gold.base and answer.numeral == str(gold.value):
        return True
    values = {answer.value}
    # 50 % equals both 50 and 0.5.
    if answer.is_percent != gold.is_percent:
        values.add(answer.value / 100 if answer.is_percent else answer.value * 100)
    tolerance = max(answer.step, gold.step) / 2 if answer.step != gold.step else 0
    return any(abs(value - gold.value) <= tolerance for value in values)


def _is_equal_word(answer: Word, gold: Word) -> bool:
    answer_text, gold_text = (squash(ARTICLE.sub("", word.text)).strip(".!") for word in (answer, gold))
    is_text = len(answer_text) > 2 or answer.is_marked or gold.is_marked
    return answer_text == gold_text or (is_text and answer_text.casefold() == gold_text.casefold())


def _text(reading: Reading) -> str:
    return reading.text if isinstance(reading, (Formula, Word)) else ""


def _value(reading: Reading) -> Any:
    """Return the value of a reading as a SymPy number, or `None` if it is not a number."""
    match reading:
        case Number():
            value = reading.value / 100 if reading.is_percent else reading.value
            return Rational(value)
        case Measure(inner, _) | Equation(value=inner):
            return _value(inner)
    return formulas.number(reading.text) if isinstance(reading, Formula) else None


def name(reading: Reading) -> str:
    """Return an answer's name in a majority vote.

    The name of a number is its value, so that `x=0.5` and `1/2` have the same name.
    """
    value = _value(reading)
    if value is not None and value.is_Rational:
        numerator, denominator = int(value.p), int(value.q)
        # Python writes no integer of more than 4,300 digits in decimal.
        is_large = max(numerator.bit_length(), denominator.bit_length()) > LARGEST_NAME
        return f"{numerator:#x}/{denominator:#x}" if is_large else str(value)
    match reading:
        case Measure(inner, _) | Equation(value=inner) | Approximation((inner, *_)):
            return name(inner)
        case Choice():
            return reading.letter
        case Group():
            names = [name(part) for part in reading.parts]
            return f"{reading.kind}[{'; '.join(sorted(names) if reading.kind in UNORDERED else names)}]"
    return squash(_text(reading))
