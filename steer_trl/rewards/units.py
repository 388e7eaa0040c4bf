r"""Reads and converts units of measure with pint.

The text after a number is a unit that pint knows (`\text{ cm}^2`, `km/h`, `^\circ C`), a label that names
the counted objects (`\text{ apples}`), or neither. If it is neither, it stays part of the answer: `\mathrm{i}`,
`\text{ million}`, `\text{ or 33}`.
"""

import re
from functools import cache, lru_cache

import pint

from steer_trl.rewards.layout import NUMBER_WORDS, TABLE

UNITS = TABLE["units"]
LABELS, LETTERS, TIGHT = (set(UNITS[name].split()) for name in ("labels", "letters", "tight"))
MATHEMATICAL = set(TABLE["mathematical"].split()) | NUMBER_WORDS
POWERS = dict.fromkeys(UNITS["squares"].split(), "**2") | dict.fromkeys(UNITS["cubes"].split(), "**3")
AFTERWARDS = {"squared": "**2", "cubed": "**3"}
SYMBOLS = {"°": "degree", "'": "arcminute", "''": "arcsecond", r"\mu": "micro", r"\Omega": "ohm", "Å": "angstrom"}

_token = re.compile(
    r"(?P<word>«[^«»]*»|[A-Za-z]+)|(?P<symbol>°|''?|\\mu ?|\\Omega ?|Å)|(?P<power>\^ ?(?:\{ ?-?\d ?\}|-?\d))"
    r"|(?P<times>[ ~]*\\cdot[ ~]*|[ ~]+)|(?P<over>[ ~]*/[ ~]*)|(?P<bracket>[()])|\\(?P<macro>[a-z]+)"
)
_quotient = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")


@cache
def registry() -> pint.UnitRegistry:
    """Return the units of pint and of `notation.yaml`. The first call takes a third of a second."""
    units: pint.UnitRegistry = pint.UnitRegistry()
    for definition in UNITS["definitions"]:
        units.define(definition)
    return units


@lru_cache(maxsize=4096)
def read_unit(text: str) -> str | None:
    """Return pint's name for the unit in a text, `""` for a label such as *apples*, `None` if the text is neither."""
    text = _quotient.sub(r"(\1)/(\2)", text.strip(" ~"))
    if text.startswith("(") and text.endswith(")") and "/" not in text:
        text = text[1:-1]
    parts: list[str] = []
    is_label = False
    power = ""
    position = 0
    while position < len(text):
        token = _token.match(text, position)
        if token is None:
            return None
        position = token.end()
        kind = token.lastgroup
        name = token[0].strip(" ~«»")
        name = (token["macro"] or name).removesuffix(".")
        lower = name.lower()
        is_marked = token[0].startswith("«")
        if kind == "power":
            parts.append("**" + re.sub(r"[^\d-]", "", name))
        elif kind == "bracket":
            parts.append(name)
        elif kind == "over" or lower in ("per", "p"):
            parts = [*parts[: -1 if parts and parts[-1] == "*" else None], "/"]
        elif kind == "times":
            parts += ["*"] if parts and parts[-1] not in "*/(" and not power else []
        elif lower in POWERS:
            power = POWERS[lower]
        elif lower in AFTERWARDS and parts and parts[-1] != "/":
            parts = [*parts[: -1 if parts[-1] == "*" else None], AFTERWARDS[lower]]
        elif kind == "symbol" and name in SYMBOLS:
            parts.append(SYMBOLS[name])
        elif (is_marked or len(name) != 2 or name in TIGHT) and (unit := find_unit(name)) is not None:
            parts.append(f"({unit}){power}")
            power = ""
        elif is_marked and len(name) > 1 and not set(lower.split("-")) & MATHEMATICAL:
            is_label = True
            power = ""
        else:
            return None
    if is_label or power:
        return ""
    return _check("".join(parts).replace("micro*", "micro").replace("micro(", "(micro").rstrip("*"))


@lru_cache(maxsize=4096)
def find_unit(word: str) -> str | None:
    """Return the spelling with which pint reads a word or symbol as a unit, `None` if pint knows no such unit."""
    if word.lower() in LABELS or word.lower() in MATHEMATICAL:
        return None
    word = UNITS["spellings"].get(word, word)
    if len(word) == 1 and word not in LETTERS:
        return None
    for spelling in (word, word.lower()) if len(word) > 2 else (word,):
        if _check(spelling):
            return spelling
    return None


def _check(unit: str) -> str | None:
    try:
        return str(registry().parse_units(unit)) if unit else None
    except Exception:  # pint lets through every error of its tokenizer, its grammar and Python's parser
        return None


def convert(value: float, unit: str, other: str) -> float | None:
    """Return `value` converted from `unit` to the `other` unit, `None` if they measure different quantities."""
    if unit == other:
        return value
    try:
        return float(registry().Quantity(value, unit).to(other).magnitude)
    except pint.DimensionalityError:
        return None
