r"""Reads and converts units of measure with pint.

The text after a number is a unit that pint knows (`\text{ cm}^2`, `km/h`, `^\circ C`), a label that names
the counted objects (`\text{ apples}`), or neither. If it is neither, it stays part of the answer: `\mathrm{i}`,
`\text{ million}`, `\text{ or 33}`.
"""

import re
from fractions import Fraction
from functools import cache, lru_cache

import pint

from steer_trl.rewards.normalization import NUMBER_WORDS, TABLE, compiled, rewrite

UNITS = TABLE["units"]
LABELS, LETTERS, TIGHT = (set(UNITS[name].split()) for name in ("labels", "letters", "tight"))
MATHEMATICAL = set(TABLE["mathematical"].split()) | NUMBER_WORDS

MONEY = set(UNITS["money"].split())
# Letters of a scale such as K, m, bn or MM.
LONGEST_SCALE = 2
# A K beside a number is a thousand or a kelvin.
THOUSAND = "«K»"

_rules = compiled(UNITS["rules"])
_counted = re.compile(UNITS["counted"])
_word = re.compile(r"«[^«»]*+»|[A-Za-z]++")
# Without the possessive repeats, a row of letters could be split into words in exponentially many ways.
_product = re.compile(rf"(?:{_word.pattern}|\*\*-?\d|[*/()])++")


@cache
def registry(number: type = float) -> pint.UnitRegistry:
    """Return the units of pint and of `notation.yaml`. The first call takes a third of a second.

    Conversions with fractions are exact, so amounts that differ in their last digit stay different. But pint cannot
    write the names of such units.
    """
    units: pint.UnitRegistry = pint.UnitRegistry(non_int_type=number)
    for definition in UNITS["definitions"]:
        units.define(definition)
    return units


@lru_cache(maxsize=4096)
def read_unit(text: str) -> str | None:
    r"""Return pint's name of the unit in a text, `""` for a label, or `None` if the text is neither.

    Without a space that LaTeX prints, single letters are variables, so that `3 m` is read as 3m. A K may be a thousand
    and is no unit if it stands close to its number, as in `5\text{K}`, or beside money or a label.
    """
    bare = text.strip(" ~")
    if text.startswith(THOUSAND):
        return None
    is_tight = text == bare and text[:1].isalpha()
    is_letters = re.fullmatch("[A-Za-z](?:[ ~]+[A-Za-z])*", bare) is not None
    if bare not in TIGHT if is_tight else is_letters and not text.startswith("~"):
        return None
    phrase = re.sub("[«»~ ]+", " ", bare).strip().lower()
    if _counted.fullmatch(phrase):
        return _name_counted(phrase)
    bare = rewrite(bare, _rules)
    if not _product.fullmatch(bare):
        return None
    words = set(_word.findall(bare))
    units = {word: find_unit(word) for word in words}
    labels = {word for word in words if units[word] is None}
    if labels:
        return "" if all(map(_is_label, labels)) and THOUSAND not in words else None
    unit = _check(_word.sub(lambda match: f"({units[match[0]]})", bare))
    return None if unit and _is_scaled_money(bare, unit) else unit


def _name_counted(phrase: str) -> str:
    """Return a name of what a phrase such as *real roots* counts, because 2 real roots are not 2 complex ones.

    It is `""` if no word of the phrase tells the counted things from others.
    """
    kinds = set(phrase.split()) & MATHEMATICAL - {"root", "roots"}
    return "_".join(["counted", *sorted(kinds)]) if kinds else ""


def _is_scaled_money(text: str, unit: str) -> bool:
    """Return whether a text is money behind a scale, as in $5K and $5m, where K and m are no units."""
    first_word = _word.findall(text)[0].strip("«»")
    factors = unit.split(" / ")[0].split(" * ")
    return len(first_word) <= LONGEST_SCALE and len(factors) > 1 and not MONEY.isdisjoint(factors)


def find_unit(word: str) -> str | None:
    """Return pint's spelling of the unit that a word or symbol names, or `None` if pint has no such unit."""
    name = word.strip("«».")
    if name.lower() in LABELS | MATHEMATICAL or (len(name) == 2 and name == word and name not in TIGHT):
        return None
    name = UNITS["spellings"].get(name, name)
    if len(name) == 1 and name not in LETTERS:
        return None
    spellings = (name, name.lower()) if len(name) > 2 else (name,)
    return next((spelling for spelling in spellings if _check(spelling)), None)


def _is_label(word: str) -> bool:
    """Return whether a word, such as *apples*, can name counted objects."""
    parts = word.strip("«».").lower().split("-")
    return word[0] == "«" and len(word) > 3 and not MATHEMATICAL.intersection(parts)


@lru_cache(maxsize=4096)
def _check(unit: str) -> str | None:
    try:
        return str(registry().parse_units(unit)) if unit else None
    except Exception:
        # pint passes on every error of its tokenizer, of Python's parser and of its own grammar.
        return None


def convert(value: Fraction, unit: str, new_unit: str) -> Fraction | None:
    """Convert `value` from `unit` to `new_unit`.

    Return `None` if the units measure different quantities, or count different things.
    """
    try:
        return Fraction(registry(Fraction).Quantity(value, unit).to(new_unit).magnitude)
    except (pint.DimensionalityError, pint.UndefinedUnitError):
        return None
