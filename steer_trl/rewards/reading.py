r"""Reads an answer, before it is compared, as a number, measure, choice, list, interval, word or formula.

Each kind has a class. An answer of no other kind is a [`Formula`], which math-verify's parser reads (`formulas.py`).
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from steer_trl.rewards.layout import LONGEST, normalize_layout
from steer_trl.rewards.numerals import Number, read_number
from steer_trl.rewards.units import AFTERWARDS, TIGHT, read_unit


class Measure(NamedTuple):
    """An amount and its unit. The unit is `""` if the text only names the counted objects, as in *34 apples*."""

    amount: "Reading"
    unit: str


class Measures(NamedTuple):
    """A measure in several parts, such as *2 feet 5 inches*."""

    parts: tuple[Measure, ...]


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
    """Several answers: a set, a tuple, an interval, a list or a union.

    `kind` is the pair of brackets, such as `{}`, `()` or `[)`; `,` for a list without brackets; `union` for a union.
    `name` is the variable, if the group was read from an inequality.
    """

    kind: str
    parts: "tuple[Reading, ...]"
    name: str = ""


class Equation(NamedTuple):
    """The sides of `a=b=c` as texts, and the reading of the last side."""

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
    """An answer of no other kind."""

    text: str


Reading = Number | Measure | Measures | Choice | Word | Group | Equation | Approximation | Formula

LABEL = re.compile(
    r"^(?:(?:«[^«»]*»|[A-Za-z]++)[ ~']*+)*?"
    r"(?:«(?:is|are|equals?|be)»|(?<![A-Za-z])(?:is|are)(?![A-Za-z])|(?<=[a-z]») ?:|(?<=[A-Za-z]{2}) ?:)[ ~:]*(?=\S)"
)
OPTION = r"(?:\(«?([A-Z])»?\)|«?([A-Z])»?[.):])"
NO_CONTENT = re.compile(
    r"[ ~]*(?:«(?:is|are|isn't|aren't|or|and|not|nor|but)»|[^\w\\(«]+$|[/?])|.*(?:\(«?[A-Z]»?\)|«[A-Z]»[.):])"
)
INFINITY = r"\infty"
REALS = "()", (r"-\infty", r"\infty")
RELATIONS = {"<": ("(", ")"), r"\le": ("[", "]")}
FLIPPED = {">": "<", r"\ge": r"\le"}
ORDER = re.compile(r"\\le(?![A-Za-z])|\\ge(?![A-Za-z])|\\ne(?![A-Za-z])|[<>]")
VARIABLE = re.compile(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:\([a-z]\))?")
ALL_BUT = re.compile(
    rf"(?:(?P<name>{VARIABLE.pattern})[ ~]*\\ne(?![A-Za-z])|\\mathbb\{{R\}}[ ~]*\\setminus[ ~]*(?:\\\{{)?)"
    r"(?P<points>.+?)(?:\\\})?"
)
DEEPEST = 20


def read(answer: str) -> Reading:
    """Read an answer that is given without its box."""
    return read_normalized(normalize_layout(answer))


def read_normalized(text: str) -> Reading:
    """Read a text that has been through `normalize_layout`."""
    return Formula(text) if len(text) > LONGEST else _read(text)


def squash(text: str) -> str:
    """Return a normalized text without gaps, marks of words and braces around single signs."""
    text = re.sub(r"[ ~«»]|\\cdot(?![A-Za-z])|\\text", "", text)
    return re.sub(r"([\^_])\{(\w)\}", r"\1\2", text)


def _read(text: str, depth: int = 0) -> Reading:
    text = text.strip(" ~")
    text = LABEL.sub("", text) if "«" in text or ":" in text or " is" in text else text
    if depth > DEEPEST:
        return Formula(text)
    readers: tuple[Callable[[str, int], Reading | None], ...] = (
        lambda text, depth: read_number(text),
        _read_choice,
        _read_measure,
        _read_word,
        _read_equation,
        _read_all_but,
        _read_list,
        _read_relation,
        _read_brackets,
        _read_two_signs,
    )
    found = (reader(text, depth + 1) for reader in readers)
    return next((reading for reading in found if reading is not None), Formula(text))


def _read_choice(text: str, depth: int) -> Choice | None:
    text = re.sub(r"^«(?:option|choice|Option|Choice)»[ ~]*", "", text)
    if alone := re.fullmatch(rf"{OPTION}|«?([A-Z])»?", text):
        return Choice(next(filter(None, alone.groups())))
    if beside := re.fullmatch(rf"{OPTION}([ ~]*)(\S.*)", text):
        first, second, gap, content = beside.groups()
        is_content = gap or second or re.match(r"[\w\\«]", content)
        if is_content and not NO_CONTENT.match(content) and not re.fullmatch("«?[A-Z]»?", content):
            return Choice(first or second, _read(content, depth))
    return None


def _read_measure(text: str, depth: int) -> Reading | None:
    if before := re.fullmatch(r"(-?)[ ~]*«(dollar|pound_sterling|euro|yen|rupee)»[ ~]*(.+)", text):
        return Measure(_read(before[1] + before[3], depth), before[2])
    if not re.search(r"[A-Za-z»°'Å]", text):
        return None
    if (measures := _read_measures(text, depth)) is not None:
        return measures
    for match in re.finditer(
        r"(?<=[\w}).!»])(?:([ ~]*)(?=[«°'Å]|\\frac\{«|\\mu|\\Omega|\\unit)|([ ~]+)(?=[A-Za-z]|\(«)|(?=[A-Za-z]))", text
    ):
        amount, unit = text[: match.start()], text[match.start() :]
        if (
            re.search(r"(?:\\cdot|[-+*/^=])[ ~]*$", amount)
            or not amount.strip(" ~")
            or not re.search(r"[\d»}]|^-?[A-Za-z]$", amount)
        ):
            continue
        if (name := _unit_at(unit, match[2], is_tight=match[1] is None and match[2] is None)) is not None:
            inner = _read(amount, depth)
            is_amount = re.search(r"[\d}]", amount) or isinstance(inner, Number)
            if isinstance(inner, (Word, Choice)) or not (is_amount or (len(amount) < 3 and "«" in unit)):
                return None
            return Measure(inner, name)
    return None


def _unit_at(text: str, gap: str | None, is_tight: bool) -> str | None:
    """Return the unit that the text after an amount names, `None` if it may be mathematics."""
    bare = text.strip(" ~")
    if is_tight and bare not in TIGHT:
        return None
    if gap and "~" not in gap and re.fullmatch(r"[A-Za-z](?:[ ~]+[A-Za-z])*", bare):
        return None  # LaTeX drops the blank: `3 m` is 3m
    if bare.strip("«»") in AFTERWARDS:
        return None
    return read_unit(bare)


def _read_measures(text: str, depth: int) -> Measures | None:
    pieces = re.split(r"(?<=[A-Za-z»'°\d}])(?:(?<=[A-Za-z»'°])|(?<=\^\d)|(?<=\}))[ ~,]*(?:«and»)?[ ~]*(?=\d)", text)
    if len(pieces) < 2:
        return None
    parts = [_read_measure(piece, depth) for piece in pieces]
    measures = [part for part in parts if isinstance(part, Measure) and part.unit]
    return Measures(tuple(measures)) if len(measures) == len(pieces) else None


def _read_word(text: str, depth: int) -> Word | None:
    if re.fullmatch(r"(?:«[^«»]+»|[\d ~,.:'()?!-]|(?<![A-Za-z])[A-Z]?[a-z]++(?=[ ~«]))*", text) and re.search(
        r"«[^«»]{2,}»", text
    ):
        if re.search(r"«(?:and|or)»", text):
            return None
        return Word(" ".join(re.sub("[«»~ ]+", " ", text).split()))
    return Word(text, is_marked=False) if re.fullmatch(r"[A-Za-z]{2,}", text) else None


def _read_equation(text: str, depth: int) -> Reading | None:
    sides = split(text, r"≈")
    if len(sides) > 1:
        sides = [side for side in sides if side.strip(" ~")]
        return Approximation(tuple(_read(side, depth) for side in sides)) if len(sides) > 1 else _read(sides[0], depth)
    sides = split(text, "=")
    if len(sides) == 1 or ORDER.search(text):
        return None
    is_number = read_number(sides[-1]) is not None  # `x=1,234`
    if any(len(split(side, SEPARATOR)) > 1 for side in (sides[:-1] if is_number else sides)):
        return None
    if not all(side.strip(" ~") for side in sides):
        return Formula(text)
    sides = [side.strip(" ~") for side in sides]
    if len(sides) == 2 and VARIABLE.fullmatch(sides[1]) and not VARIABLE.fullmatch(sides[0]):
        sides.reverse()
    return Equation(tuple(sides), _read(sides[-1], depth))


def _read_list(text: str, depth: int) -> Reading | None:
    if len(parts := split(text, r"\\cup(?![A-Za-z])")) > 1:
        return Group("union", tuple(_read(part, depth) for part in parts))
    parts = [part for part in split(text, SEPARATOR) if part.strip(" ~")]
    if len(parts) < 2:
        return None
    readings = [_read(part, depth) for part in parts]
    names = {reading.name for reading in readings if isinstance(reading, Group)}
    if (
        re.search("«or»", text)
        and names != {""}
        and all(isinstance(reading, Group) and reading.name for reading in readings)
    ):
        return Group("union", tuple(part for reading in readings for part in _unite(reading)), names.pop())
    flat: list[Reading] = []
    for reading in readings:
        flat += reading.parts if isinstance(reading, Group) and reading.kind == "," else [reading]
    return Group(",", tuple(flat))


def _read_all_but(text: str, depth: int) -> Group | None:
    r"""Read all numbers but a few, such as `x\ne2` or `\mathbb{R}\setminus\{2,3\}`, as a union of intervals."""
    match = ALL_BUT.fullmatch(text)
    if match is None:
        return None
    points = [re.sub(r".*\\ne(?![A-Za-z])", "", point) for point in split(match["points"], SEPARATOR)]
    numbers = [read_number(point) for point in points]
    if None not in numbers:
        points = [point for _, point in sorted(zip(numbers, points, strict=True))]
    ends = pairwise([r"-\infty", *points, INFINITY])
    return Group("union", tuple(_interval("()", *pair) for pair in ends), match["name"] or "")


def _unite(reading: Reading) -> tuple[Reading, ...]:
    return reading.parts if isinstance(reading, Group) and reading.kind == "union" else (reading,)


def _read_relation(text: str, depth: int) -> Reading | None:
    """Read an inequality of one variable as the interval that it describes."""
    if element := re.fullmatch(rf"({VARIABLE.pattern})[ ~]*\\in(?![A-Za-z])(.+)", text):
        inner = _read(element[2], depth)
        return inner._replace(name=element[1]) if isinstance(inner, Group) else inner
    if text.replace(" ", "") == r"\mathbb{R}":
        return _interval("()", *REALS[1])
    sides = [side.strip(" ~") for side in split(text, ORDER.pattern)]
    signs = [match[0] for match in ORDER.finditer(text)]
    if len(sides) != len(signs) + 1 or not signs or not all(sides):
        return None
    if all(sign in FLIPPED for sign in signs):
        sides, signs = sides[::-1], [FLIPPED[sign] for sign in reversed(signs)]
    variables = [
        position
        for position, side in enumerate(sides)
        if VARIABLE.fullmatch(side) and side not in (r"\infty", r"\pi", "e")
    ]
    if len(variables) != 1:
        return None
    position = variables[0]
    name = sides[variables[0]]
    if any(sign not in RELATIONS for sign in signs) or (len(sides) == 3 and position != 1) or len(sides) > 3:
        return None
    low = (RELATIONS[signs[position - 1]][0], sides[position - 1]) if position else ("(", r"-\infty")
    high = (RELATIONS[signs[position]][1], sides[position + 1]) if position + 1 < len(sides) else (")", INFINITY)
    return _interval(low[0] + high[0], low[1], high[1])._replace(name=name)


def _interval(kind: str, low: str, high: str) -> Group:
    return Group(kind, (_read(low), _read(high)))


def _read_brackets(text: str, depth: int) -> Reading | None:
    if french := re.fullmatch(r"([\][])([^\][]+)([\][])", text):
        ends = split(french[2], "[,;]")
        kind = {"]": "(", "[": "["}[french[1]] + {"[": ")", "]": "]"}[french[3]]
        if (len(ends) == 2 and kind != "[]") or (french[1] == "]" and len(ends) == 2):
            return Group(kind, tuple(_read(end, depth) for end in ends))
    opening = re.match(r"\\\{|[(\[]", text)
    if not opening or not _is_enclosed(text):
        return None
    closing = text[-2:] if text.endswith(r"\}") else text[-1:]
    inside = text[opening.end() : len(text) - len(closing)]
    if (opening[0] == r"\{") != (closing == r"\}"):
        return None
    if opening[0] == r"\{":
        if described := re.fullmatch(
            r"[ ~]*([A-Za-z])(?:[ ~]*\\in[ ~]*\\mathbb\{R\})?[ ~]*(?:\\mid|\||:)(.+)", inside
        ):
            return _read(described[2], depth)
        inner = _read(inside, depth)
        return Group("{}", inner.parts if isinstance(inner, Group) and inner.kind == "," else (inner,))
    parts = split(inside, "[,;]")
    if len(parts) > 1:
        return Group(opening[0] + closing, tuple(_read(part, depth) for part in parts))
    return _read(inside, depth) if opening[0] + closing == "()" and inside.strip(" ~") else None


def _read_two_signs(text: str, depth: int) -> Group | None:
    if r"\pm" not in text and r"\mp" not in text:
        return None
    signs = ("+", "-"), ("-", "+")
    texts = [text.replace(r"\pm", upper).replace(r"\mp", lower) for upper, lower in signs]
    return Group(",", tuple(_read(one, depth) for one in texts))


SEPARATOR = ",|;|«and»|«or»"
BRACKETS = r"(?P<opening>\\\{|\\lfloor|\\lceil|[({\[])|(?P<closing>\\\}|\\rfloor|\\rceil|[)}\]])"


def split(text: str, separator: str) -> list[str]:
    """Split a text at each separator that is outside all brackets."""
    parts = []
    start = 0
    depth = 0
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
    """Return whether the bracket at the beginning of a text is closed by its last sign."""
    depth = 0
    for match in re.finditer(BRACKETS, text):
        depth += 1 if match["opening"] else -1
        if depth <= 0:
            return match.end() == len(text)
    return False
