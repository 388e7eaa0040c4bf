r"""Reads numbers in the notations of people and programs, as exact fractions. Examples are:

`1,234`, `10\,000`, `4.5e33`, `1.77 \times 10^{-6}`, `3\frac{1}{2}`, `3 1/2`, `0.\overline{3}`, `101_{2}`, `62.5\%`,
`-\frac{7}{2}`, `1.5 million`, `twenty-three`, `two thirds`.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from steer_trl.rewards.normalization import TABLE

DIGITS_OF_AN_APPROXIMATION = 6
LARGEST_EXPONENT = 5_000
NUMBERS: dict[str, int] = TABLE["numbers"]
SCALES = TABLE["scales"] | {name: Fraction(1, part) for name, part in TABLE["parts"].items()}


class Number(NamedTuple):
    """A number that was read from text.

    `step` is the place value of the last digit if the number is a decimal with six or more significant digits, which
    may be rounded. Otherwise it is 0.

    `numeral` holds the digits as they are written in `base`, such as `101` for `101_2`, whose value is 5.
    """

    value: Fraction
    step: Fraction = Fraction(0)
    is_percent: bool = False
    base: int = 0
    numeral: str = ""


GROUPED = r"[1-9]\d{0,2}(?:(?:,\d{3})+|(?:[~ ]\d{3})+|(?:'\d{3})+)(?!\d)"
WHOLE = rf"(?:{GROUPED}|\d+)"
PLAIN = rf"(?:{WHOLE}(?:\.(?:(?:\d{{3}}~)+\d{{1,3}}|\d*))?|\.\d+)"
EXPONENT = r"\{?([+-]?\d+) ?\}?"
PART = r"(\{[^{}]*\}|\d)"
FRACTION = rf"\\frac[~ ]*{PART}[~ ]*{PART}"


def read_number(text: str) -> Number | None:
    """Return the number if the whole of a normalized text is a number, otherwise `None`."""
    text = text.strip(" ~")
    if not text or len(text) > LARGEST_EXPONENT:
        return None
    if text[0] in "+-":
        number = read_number(text[1:])
        return _negative(number) if number and text[0] == "-" else number
    if text.endswith("%"):
        number = read_number(text[:-1])
        return number and number._replace(is_percent=True)
    if text.startswith("(") and text.endswith(")") and "," not in text:
        return read_number(text[1:-1])
    matches = ((build, pattern.fullmatch(text)) for pattern, build in NOTATIONS.items())
    return next(filter(None, (build(match) for build, match in matches if match)), None)


def _negative(number: Number) -> Number:
    return number._replace(value=-number.value, numeral=number.numeral and f"-{number.numeral}")


def _plain(match: re.Match[str]) -> Number:
    digits = re.sub("[,~' ]", "", match[0])
    whole, point, decimals = digits.partition(".")
    is_approximation = point and len((whole + decimals).lstrip("0")) >= DIGITS_OF_AN_APPROXIMATION
    step = Fraction(1, 10 ** len(decimals)) if is_approximation else Fraction(0)
    return Number(Fraction(digits), step)


def _scientific(match: re.Match[str]) -> Number | None:
    number = read_number(match[1] or "1")
    exponent = int(match[2])
    if number is None or abs(exponent) > LARGEST_EXPONENT:
        return None
    factor = Fraction(10) ** exponent
    return number._replace(value=number.value * factor, step=number.step * factor)


def _repeating(match: re.Match[str]) -> Number:
    whole, fixed, *digits = match.groups()
    whole, repeated = whole or "0", "".join(digits)
    difference = int(whole + fixed + repeated) - int(whole + fixed)
    return Number(Fraction(difference, (10 ** len(repeated) - 1) * 10 ** len(fixed)))


def _fraction(match: re.Match[str]) -> Number | None:
    above, below = (read_number(part.strip("{}")) for part in match.groups())
    if above is None or below is None or not below.value or above.base or below.base:
        return None
    return Number(above.value / below.value)


def _read_mixed(match: re.Match[str]) -> Number | None:
    whole, part = read_number(match[1]), read_number(match[2])
    if whole is None or part is None or not 0 < part.value < 1:
        return None
    return Number(whole.value + part.value)


def _read_based(match: re.Match[str]) -> Number | None:
    name = match[2].strip("{}«»()")
    base = int(name) if name.isdigit() else NUMBERS.get(name.lower(), 0)
    if not base:
        return None
    digits = re.sub("[~ ]", "", match[1])
    try:
        return Number(Fraction(int(digits, base)), base=base, numeral=digits)
    except ValueError:
        # The base is not from 2 to 36, or it does not have such a digit.
        return None


def _read_words(match: re.Match[str]) -> Number | None:
    words = re.findall(r"[A-Za-z]+|[^\s~«»-]+", match[0].lower())
    if words[-1] in ("a", "an"):
        return None
    value = _value_of_words([word for word in words if word not in ("and", "a", "an")])
    return None if value is None else Number(value)


def _value_of_words(words: list[str]) -> Fraction | None:
    """Return the number that `words` name, such as *one hundred five*, *1.5 million* or *two thirds*."""
    largest = max((word for word in words if word in SCALES), key=SCALES.__getitem__, default=None)
    if largest is not None:
        return _value_of_scale(words, words.index(largest))
    values = [Fraction(NUMBERS[word]) for word in words if word in NUMBERS]
    if len(values) < len(words):
        number = read_number(words[0]) if len(words) == 1 else None
        return number and number.value
    if len(values) == 2 and values[0] >= 20 and 0 < values[1] < 10:
        return values[0] + values[1]
    return values[0] if len(values) == 1 else None


def _value_of_scale(words: list[str], position: int) -> Fraction | None:
    """Return the number that `words` name.

    Their largest scale, such as *million* or *thirds*, is at `position`.
    """
    scale = SCALES[words[position]]
    count = _value_of_words(words[:position] or ["one"])
    remainder = _value_of_words(words[position + 1 :] or ["zero"])
    if count is None or remainder is None or remainder >= scale:
        return None
    if words[position] == "half" and count > 1:
        # For example, *three and a half*.
        return count + scale
    return count * scale + remainder


WORD = r"«[A-Za-z-]+»"
NOTATIONS: dict[re.Pattern[str], Callable[[re.Match[str]], Number | None]] = {
    re.compile(PLAIN): _plain,
    re.compile(
        rf"(?:({PLAIN}|{FRACTION.replace('(', '(?:')})[~ ]*(?:\\cdot|«?x»?)[~ ]*)?10[~ ]?\^ ?{EXPONENT}"
    ): _scientific,
    re.compile(rf"({PLAIN})[~ ]*(?:[eE]|«[eE]»)[~ ]*{EXPONENT}"): _scientific,
    re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)[~ ]*\{?(\d+)\}?(?: ?\\ldots ?)?"): _repeating,
    re.compile(r"(\d*)\.(\d*)\\dot[~ ]*\{?(\d)\}?(\d*)\\dot[~ ]*\{?(\d)\}?"): _repeating,
    re.compile(r"(\d*)\.(\d*)\((\d+)\)"): _repeating,
    re.compile(r"(\d*)\.(\d*?)(\d)\3\3++[~ ]*\\ldots ?"): _repeating,
    # A period of at most 12 digits, because the time grows with the longest one.
    re.compile(r"(\d*)\.(\d*?)(\d\d{1,11}?)\3++[~ ]*\\ldots ?"): _repeating,
    re.compile(FRACTION): _fraction,
    re.compile(r"([^/]+)/([^/]+)"): _fraction,
    re.compile(rf"({WHOLE})[~ ]*(?:«and»[~ ]*)?({FRACTION.replace('(', '(?:')}|(?<=[~ ])\d+ ?/ ?\d+)"): _read_mixed,
    re.compile(
        r"(?:\\overline\{|\()?([0-9A-Za-z](?:[~ ]?[0-9A-Za-z])*)[)}]?_ ?((?!0)\w|\{[^{}0][^{}]*\})"
    ): _read_based,
    re.compile(rf"(?:{PLAIN})?(?:[~ ]*(?:{WORD}|(?<=[~ ])an?(?=[~ ])))+"): _read_words,
}
