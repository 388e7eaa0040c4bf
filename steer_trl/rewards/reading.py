r"""Turns an answer into a number, measure, choice, list, interval, word or formula that can be compared.

Each kind has a class. An answer that fits no other kind becomes a [`Formula`], which math-verify's parser reads
(`formulas.py`).
"""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any, NamedTuple

from steer_trl.rewards.normalization import LETTERS, LONGEST, TABLE, normalize_layout
from steer_trl.rewards.numerals import Number, read_number
from steer_trl.rewards.units import convert, read_unit


class Measure(NamedTuple):
    """An amount and its unit.

    The unit is `""` if the text only names the counted objects, as in *34 apples*.
    """

    amount: "Reading"
    unit: str


class Choice(NamedTuple):
    """The letter of an option, and the content beside the letter, if there is any."""

    letter: str
    content: "Reading | None" = None


class Word(NamedTuple):
    """An answer in words.

    `is_marked` is true if LaTeX sets the words as text, so that they cannot be a product of letters.
    """

    text: str
    is_marked: bool = True


class Group(NamedTuple):
    r"""Several answers: a set, a tuple, an interval, a list or a union.

    `kind` is the pair of brackets, such as `{}`, `()` or `[)`; `,` for a list without brackets; `union`;
    `difference` for $A\setminus B$; `condition` for an answer and the domain of a letter in it, such as
    $k\pi, k\in\mathbb{Z}$.
    `name` is the variable, if the group was read from an inequality.
    """

    kind: str
    parts: "tuple[Reading, ...]"
    name: str = ""


class Equation(NamedTuple):
    """The sides of `a=b=c` as strings, and the reading of the last side."""

    sides: tuple[str, ...]
    value: "Reading"

    @property
    def name(self) -> str:
        """The left side without blanks."""
        return squash(self.sides[0])


class Approximation(NamedTuple):
    """The sides of `a ≈ b`."""

    sides: "tuple[Reading, ...]"


class Formula(NamedTuple):
    """An answer that fits no other kind."""

    text: str


Reading = Number | Measure | Choice | Word | Group | Equation | Approximation | Formula

LABEL = re.compile(
    r"^(?:(?:«[^«»]*»|[A-Za-z]++)[ ~']*+)*?"
    r"(?:«(?:is|are|equals?|be)»|(?<![A-Za-z])(?:is|are)(?![A-Za-z])"
    r"|(?:(?<=[a-z]»)|(?<=[a-z]»~)|(?<=[A-Za-z]{2})) ?:)[ ~:]*(?=\S)"
)
MATHEMATICAL = set(TABLE["mathematical"].split())
OPTION = r"(?:\(«?([A-Z])»?\)|«?([A-Z])»?[.):])"
NO_CONTENT = re.compile(
    r"[ ~]*(?:«(?:is|are|isn't|aren't|or|and|not|nor|but)»|[^\w\\(«]+$|«?[A-Z]»?$|[/?])"
    r"|.*(?:\(«?[A-Z]»?\)|«[A-Z]»[.):])"
)
# A sum or product of letters, such as `r\pi` or `n!`. It is an amount only before a unit that LaTeX sets as text.
LETTERS_ONLY = rf"(?:[A-Za-z()|!+/~ -]|\\cdot(?![A-Za-z])|\\(?:{LETTERS})(?![A-Za-z]))+"
UNIT_IN_TEXT = re.compile(r"[ ~]*«[^«»]*+»(?:«[^«»]*+»|\\cdot(?![A-Za-z])|[^A-Za-z\\«»])*")
AMOUNT = re.compile(rf"(?:[\d»}}].*|^{LETTERS_ONLY})(?<![-+*/^= ~(])(?<!\\cdot)[ ~]*$")
UNIT = re.compile(
    r"(?<=[\w}).!»|])(?:[ ~]*(?=[«°'Å]|\\frac\{«|\\mu|\\Omega|\\unit)|[ ~]+(?=[A-Za-z]|\(«)|(?=[A-Za-z]))"
)
PARTS = re.compile(r"(?:(?<=[A-Za-z»'°}])|(?<=\^\d))[ ~,]*(?:«and»)?[ ~]*(?=\d)")
LEAST = r"-\infty"
GREATEST = r"\infty"
CONSTANTS = r"\infty", r"\pi", "e"
FLIPPED = {">": "<", r"\ge": r"\le"}
ORDER = re.compile(r"\\le(?![A-Za-z])|\\ge(?![A-Za-z])|\\ne(?![A-Za-z])|[<>]")
VARIABLE = re.compile(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:\([a-z]\))?")
REALS = re.escape(TABLE["reals"])
ALL_BUT = re.compile(
    r"(?:(?P<interval>.+?)(?:,|;|«and»)[ ~]*)??"
    rf"(?:(?P<name>{VARIABLE.pattern})[ ~]*\\ne(?![A-Za-z])|{REALS}[ ~]*\\setminus[ ~]*(?:\\\{{)?)"
    r"(?P<points>.+?)(?:\\\})?"
)
INEQUALITY = re.compile(
    rf"(?:(?P<low>.+?)(?P<above><|\\le(?![A-Za-z])))??[ ~]*(?P<name>{VARIABLE.pattern})[ ~]*"
    r"(?:(?P<below><|\\le(?![A-Za-z]))(?P<high>.+))?"
)
DOMAIN = rf"{REALS}|\\mathbb\{{[ZN]\}}(?:[ ~]*\^[ ~]*\{{?\+\}}?)?"
SET_BUILDER = re.compile(rf"[ ~]*[A-Za-z](?:[ ~]*\\in[ ~]*(?P<domain>{DOMAIN}))?[ ~]*(?:\\mid|\||:)(?P<condition>.+)")
IS_REAL = re.compile(rf"[ ~]*[A-Za-z][ ~]*\\in[ ~]*{REALS}[ ~]*")
# Members of a set of whole numbers that is given by its bounds. A larger one stays as it is written.
MOST_MEMBERS = 1_000
EMPTY = re.compile(TABLE["empty"])
NONEXISTENT = re.compile(TABLE["nonexistent"])
INFINITE = re.compile(TABLE["infinite"])
# A point with its name. `N(0,1)` and `U(0,1)` are distributions.
POINT = re.compile(r"«?([A-MO-TV-Z])»?'?[ ~]*(\(.*\))")
IN_DOMAIN = re.compile(rf"(?<=[ ~,;(»])[A-Za-z][ ~]*\\in[ ~]*(?:{DOMAIN})[ ~]*(?P<closing>\)?)$")
BEFORE_DOMAIN = (",", ";", "«for»", "«where»", "«with»", "«all»", "«any»", "«every»")


TWO_SIGNS = re.compile(r"\\(pm|mp)(?![A-Za-z])")
# A gap between two numbers keeps them apart.
GAP = re.compile(r"(?<![\d. ~«»])[ ~«»]++|(?<=[\d.])[ ~«»]++(?![\d.])|\\text")


def read(answer: str) -> Reading:
    """Read an answer that is given without its box."""
    return read_normalized(normalize_layout(answer))


def read_normalized(text: str) -> Reading:
    """Read a text that was normalized by `normalize_layout`."""
    return Formula(text) if len(text) > LONGEST else _read(text)


def squash(text: str) -> str:
    r"""Return a normalized text without spaces, marks around words, and braces around one character.

    Signs of multiplication stay, because $2\cdot 3^n$ is not $23^n$, and $\sin x\cdot y$ is not $\sin xy$.
    """
    return re.sub(r"(?<!\\)\{(\w)\}", r"\1", GAP.sub("", text))


def _read(text: str) -> Reading:
    text = text.strip(" ~")
    text = _without_label(text) if "«" in text or ":" in text or " is" in text else text
    readings = (reader(text) for reader in READERS)
    return next((reading for reading in readings if reading is not None), Formula(text))


def _without_label(text: str) -> str:
    """Return a text without its label, such as *The answer is:*. The words of *at least: 5* belong to the answer."""
    label = LABEL.match(text)
    words = re.findall("[A-Za-z]+", label[0]) if label else []
    return text[label.end() :] if label and (not words or words[-1].lower() not in MATHEMATICAL) else text


def _read_choice(text: str) -> Choice | None:
    text = re.sub(r"^«(?:option|choice|Option|Choice)»[ ~]*", "", text)
    if letter_alone := re.fullmatch(rf"{OPTION}|«?([A-Z])»?", text):
        return Choice(next(filter(None, letter_alone.groups())))
    if letter_and_content := re.fullmatch(rf"{OPTION}([ ~]*)(\S.*)", text):
        first, second, gap, content = letter_and_content.groups()
        is_content = gap or second or re.match(r"[\w\\«]", content)
        if is_content and not NO_CONTENT.match(content):
            return Choice(first or second, _read(content))
    return None


def _read_measure(text: str) -> Reading | None:
    if (total := _read_sum(text)) is not None:
        return total
    for match in UNIT.finditer(text):
        amount, unit = text[: match.start()], text[match.start() :]
        if not AMOUNT.search(amount) or (name := read_unit(unit)) is None:
            continue
        inner = _read(amount)
        is_value = re.search(r"[\d}]", amount) or UNIT_IN_TEXT.fullmatch(unit)
        is_amount = isinstance(inner, Number) or (is_value and "«" not in amount)
        # `ab\text{ cm}` is a product with its unit, but `xy\text{ plane}` is a name.
        is_word = isinstance(inner, Choice) or (isinstance(inner, Word) and not name)
        return Measure(inner, name) if is_amount and not is_word else None
    return None


def _read_sum(text: str) -> Measure | None:
    """Read a measure with several units, such as *2 feet 5 inches*, in the last of its units."""
    pieces = PARTS.split(text)
    if len(pieces) < 2:
        return None
    values = [
        (part.amount.value, part.unit)
        for part in map(_read_measure, pieces)
        if isinstance(part, Measure) and part.unit and isinstance(part.amount, Number)
    ]
    if len({unit for _, unit in values}) < len(pieces):
        return None
    unit = values[-1][1]
    amounts = [convert(value, own_unit, unit) for value, own_unit in values]
    converted = [amount for amount in amounts if amount is not None]
    return Measure(Number(Fraction(sum(converted))), unit) if len(converted) == len(amounts) else None


def _read_nothing(text: str) -> Formula | Word | None:
    """Read *no solution* and similar words as the empty set, and other spellings of a phrase as the phrase."""
    words = re.sub("[«»~ .!]+", " ", text).strip().lower()
    if EMPTY.fullmatch(words):
        return Formula(r"\emptyset")
    if INFINITE.fullmatch(words):
        return Word("infinitely many")
    return Word("does not exist") if NONEXISTENT.fullmatch(words) else None


def _read_word(text: str) -> Word | None:
    if re.fullmatch(
        r"(?:«(?!and»|or»)[^«»]+»|[\d ~.:'()?!-]|(?<![A-Za-z])[A-Z]?[a-z]++(?=[ ~«]))*", text
    ) and re.search(r"«[^«»]{2,}»", text):
        return Word(" ".join(re.sub("[«»~ ]+", " ", text).split()))
    return Word(text, is_marked=False) if re.fullmatch(r"[A-Za-z]{2,}", text) else None


def _read_equation(text: str) -> Reading | None:
    if len(sides := split(text, "≈")) > 1:
        readings = [_read(side) for side in sides if side.strip(" ~")]
        return Approximation(tuple(readings)) if len(readings) > 1 else readings[0]
    sides = [side.strip(" ~") for side in split(text, "=")]
    if len(sides) == 1 or ORDER.search(text):
        return None
    if any(len(split(side, SEPARATOR)) > 1 and read_number(side) is None for side in sides):
        return None
    if not all(sides):
        return Formula(text)
    if len(sides) == 2 and VARIABLE.fullmatch(sides[1]) and not VARIABLE.fullmatch(sides[0]):
        sides.reverse()
    return Equation(tuple(sides), _read(sides[-1]))


def _read_all_but(text: str) -> Group | None:
    r"""Read an interval without some points, such as `x>1, x\ne2` or `\mathbb{R}\setminus\{2,3\}`, as a union."""
    match = ALL_BUT.fullmatch(text)
    if match is None:
        return None
    variable = match["name"] or "x"
    interval = _read_inequality(match["interval"] or rf"{variable}<{GREATEST}")
    if interval is None or interval.name != variable:
        return None
    points = [re.sub(r".*\\ne(?![A-Za-z])", "", point) for point in split(match["points"], SEPARATOR)]
    numbers = [number for point in points if (number := read_number(point))]
    inner = sorted(numbers) if len(numbers) == len(points) else map(_read, points)
    least, greatest = interval.parts
    ends = pairwise([least, *inner, greatest])
    kinds = [interval.kind[0] + ")", *["()"] * (len(points) - 1), "(" + interval.kind[1]]
    return Group("union", tuple(map(Group, kinds, ends)), match["name"] or "")


def _read_ratio(text: str) -> Group | None:
    """Read a ratio of three or more numbers, such as `2:3:5`, as a tuple.

    A ratio of two numbers is a fraction.
    """
    parts = split(text, ":")
    return Group("()", tuple(map(_read, parts))) if len(parts) > 2 else None


def _read_difference(text: str) -> Group | None:
    r"""Read a set without another one, such as `(-\infty,1)\setminus\{0\}`."""
    parts = split(text, r"\\setminus(?![A-Za-z])")
    return Group("difference", tuple(map(_read, parts))) if len(parts) == 2 and all(parts) else None


def _read_domain(text: str) -> Group | None:
    r"""Read an answer beside the domain of one of its letters, such as `k\pi, k\in\mathbb{Z}`."""
    domain = IN_DOMAIN.search(text)
    if domain is None:
        return None
    before = text[: domain.start()].rstrip(" ~")
    answer = before.removesuffix("(").rstrip(" ~") if domain["closing"] else before
    while answer.endswith(BEFORE_DOMAIN):
        answer = answer[: -max(len(word) for word in BEFORE_DOMAIN if answer.endswith(word))].rstrip(" ~")
    if not answer or answer == before:
        return None
    return Group("condition", (_read(answer), Formula(domain[0].removesuffix(")"))))


def _read_point(text: str) -> Equation | None:
    """Read a point with its name, such as `P(2,-3)`, as an equation."""
    match = POINT.fullmatch(text)
    if match is None or not _is_enclosed(match[2]) or re.search(r"(?<![\\A-Za-z])[A-Za-z]", match[2]):
        return None
    value = _read(match[2])
    return Equation((match[1], match[2]), value) if isinstance(value, Group) else None


def _read_list(text: str) -> Group | None:
    if len(parts := split(text, r"\\cup(?![A-Za-z])")) > 1:
        return _unite([_read(part) for part in parts])
    texts = [part for part in split(text, SEPARATOR) if part.strip(" ~")]
    if len(texts) < 2:
        return None
    readings = [_read(part) for part in texts]
    names = {reading.name if isinstance(reading, (Group, Equation)) else "" for reading in readings}
    has_interval = any(isinstance(reading, Group) and reading.name for reading in readings)
    name = names.pop() if has_interval and len(names) == 1 else ""
    if name and "«and»" in text and "«or»" not in text:
        intervals = [reading for reading in readings if isinstance(reading, Group)]
        meet = _intersect(intervals) if len(intervals) == len(readings) else None
        if meet is not None:
            return meet
    name = name if "«or»" in text else ""
    kind = "union" if name else ","
    members = [
        reading.parts if isinstance(reading, Group) and reading.kind == kind else (reading,) for reading in readings
    ]
    return Group(kind, tuple(chain.from_iterable(members)), name)


def _unite(readings: list[Reading]) -> Group:
    """Return the union of several sets. Sets that are given by their members become one."""
    listed_sets = [reading for reading in readings if isinstance(reading, Group) and reading.kind == "{}"]
    members = [member for listed_set in listed_sets for member in listed_set.parts]
    unlisted_sets = [reading for reading in readings if not (isinstance(reading, Group) and reading.kind == "{}")]
    unlisted_sets = [reading for reading in unlisted_sets if reading != Formula(r"\emptyset")]
    if not unlisted_sets:
        return Group("{}", tuple(dict.fromkeys(members)) or (Formula(r"\emptyset"),))
    finite = [Group("{}", tuple(dict.fromkeys(members)))] if members else []
    return Group("union", (*unlisted_sets, *finite))


def _read_brackets(text: str) -> Reading | None:
    opening = re.match(r"\\\{|[(\[]", text)
    if not opening or not _is_enclosed(text):
        return None
    closing = r"\}" if text.endswith(r"\}") else text[-1]
    inside = text[opening.end() : -len(closing)]
    if opening[0] + closing == r"\{\}":
        if described := SET_BUILDER.fullmatch(inside):
            described_set = _read_condition(described["condition"], described["domain"])
            if described_set is not None:
                return described_set
        inner = _read(inside)
        return Group("{}", inner.parts if isinstance(inner, Group) and inner.kind == "," else (inner,))
    parts = split(inside, "[,;]")
    if len(parts) > 1:
        return Group(opening[0] + closing, tuple(map(_read, parts)))
    return _read(inside) if opening[0] + closing == "()" and inside.strip(" ~") else None


def _read_condition(condition: str, domain: str | None) -> Reading | None:
    r"""Read what stands behind the bar of a set, such as `1<x<4`, as the set.

    In `\mathbb{Z}` or `\mathbb{N}` it must have two bounds. Whether 0 is a natural number may then not matter.
    """
    parts = [part for part in split(condition, ",|«and»") if not IS_REAL.fullmatch(part)]
    readings = [_read(part) for part in parts]
    intervals = [reading for reading in readings if isinstance(reading, Group) and reading.name]
    meet = _intersect(intervals) if len(intervals) == len(parts) > 1 else None
    reading = meet or (readings[0] if len(parts) == 1 else _read(condition))
    if domain is None or re.fullmatch(REALS, domain):
        return reading
    if not isinstance(reading, Group):
        return None
    return _read_whole_numbers(reading, domain) or Group("{}", (Formula(domain), reading))


def _read_whole_numbers(interval: Group, domain: str) -> Group | None:
    """Read the whole numbers in an interval as a set, or return `None` if they are not few or not known."""
    ends = [end.value for end in interval.parts if isinstance(end, Number)]
    is_natural = "N" in domain or "+" in domain
    if is_natural and len(ends) == 1 and interval.parts[0] == Formula(LEAST) and "+" in domain:
        ends = [Fraction(0), *ends]
        interval = interval._replace(kind="(" + interval.kind[1])
    if len(ends) != 2 or len(interval.kind) != 2:
        return None
    low, high = ends
    least = math.floor(low) + 1 if interval.kind[0] == "(" else math.ceil(low)
    most = math.ceil(high) - 1 if interval.kind[1] == ")" else math.floor(high)
    if most - least >= MOST_MEMBERS or (is_natural and least < 1):
        return None
    members = tuple(Number(Fraction(member)) for member in range(least, most + 1))
    return Group("{}", members or (Formula(r"\emptyset"),))


def _intersect(intervals: list[Group]) -> Group | None:
    """Return the interval in which several inequalities of one variable hold, or `None` if it is not known."""
    if len({interval.name for interval in intervals}) > 1 or any(interval.kind == "union" for interval in intervals):
        return None
    ends = [_value_of_end(end) for interval in intervals for end in interval.parts]
    if None in ends:
        return None
    # Of equal ends, the open one is the tighter one.
    low = max(intervals, key=lambda interval: (_value_of_end(interval.parts[0]), interval.kind[0] == "("))
    high = min(intervals, key=lambda interval: (_value_of_end(interval.parts[1]), interval.kind[1] == "]"))
    return Group(low.kind[0] + high.kind[1], (low.parts[0], high.parts[1]), low.name)


def _value_of_end(end: Reading) -> Any:
    infinite = {LEAST: -math.inf, GREATEST: math.inf}
    return end.value if isinstance(end, Number) else infinite.get(end.text) if isinstance(end, Formula) else None


def _read_element(text: str) -> Reading | None:
    """Read an element of a set, such as `x \\in (0,1)`, as the set."""
    element = re.fullmatch(rf"({VARIABLE.pattern})[ ~]*\\in(?![A-Za-z])(.+)", text)
    if element is None:
        return None
    inner = _read(element[2])
    return inner._replace(name=element[1]) if isinstance(inner, Group) else inner


def _read_inequality(text: str) -> Group | None:
    """Read an inequality of one variable as the interval that it describes."""
    pieces = re.split(rf"({ORDER.pattern})", text)
    if set(pieces[1::2]) <= {">", r"\ge"}:
        pieces = [FLIPPED.get(piece, piece) for piece in reversed(pieces)]
    match = INEQUALITY.fullmatch(" ".join(pieces))
    if match is None:
        return None
    low, high = (match[name].strip(" ~") if match[name] else None for name in ("low", "high"))
    if low is high or any(end and VARIABLE.fullmatch(end) and end not in CONSTANTS for end in (low, high)):
        return None
    kind = ("[" if match["above"] == r"\le" else "(") + ("]" if match["below"] == r"\le" else ")")
    return Group(kind, (_read(low or LEAST), _read(high or GREATEST)), match["name"])


def _read_two_signs(text: str) -> Group | None:
    if not TWO_SIGNS.search(text):
        return None
    upper = TWO_SIGNS.sub(lambda match: "+" if match[1] == "pm" else "-", text)
    lower = TWO_SIGNS.sub(lambda match: "-" if match[1] == "pm" else "+", text)
    return Group(",", (_read(upper), _read(lower)))


READERS: tuple[Callable[[str], Reading | None], ...] = (
    read_number,
    _read_choice,
    _read_nothing,
    _read_measure,
    _read_word,
    _read_equation,
    _read_ratio,
    _read_domain,
    _read_all_but,
    _read_difference,
    _read_list,
    _read_point,
    _read_brackets,
    _read_element,
    _read_inequality,
    _read_two_signs,
)

SEPARATOR = ",|;|«and»|«or»"
BRACKETS = r"(?P<opening>\\\{|\\lfloor|\\lceil|[({\[])|(?P<closing>\\\}|\\rfloor|\\rceil|[)}\]])"


def split(text: str, separator: str) -> list[str]:
    """Split a text at each separator that is outside all brackets."""
    parts, start, depth = [], 0, 0
    for match in re.finditer(rf"{BRACKETS}|(?P<separator>{separator})", text):
        if match["opening"]:
            depth += 1
        elif match["closing"]:
            depth -= 1
        elif depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def _is_enclosed(text: str) -> bool:
    """Return whether the bracket that opens a text is closed only at the end of the text."""
    depth = 0
    for match in re.finditer(BRACKETS, text):
        depth += 1 if match["opening"] else -1
        if depth <= 0:
            return match.end() == len(text)
    return False
