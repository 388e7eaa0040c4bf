r"""Reads numbers, as people and programs write them, as exact fractions.

`1,234`, `10\,000`, `4.5e33`, `1.77 \times 10^{-6}`, `3\frac{1}{2}`, `3 1/2`, `0.\overline{3}`, `101_{2}`, `62.5\%`,
`-\frac{7}{2}`, `1.5 million`, `twenty-three`, `two thirds`.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from steer_trl.rewards.layout import TABLE

DIGITS_OF_AN_APPROXIMATION = 6
LARGEST_EXPONENT = 5_000


class Number(NamedTuple):
    """A number.

    `step` is the unit of the last digit of a decimal with enough digits to be a rounded number, else 0.

    `numeral` has the digits of a number in a `base`: `101` for `101_2`, whose value is 5.
    """

    value: Fraction
    step: Fraction = Fraction(0)
    is_percent: bool = False
    base: int = 0
    numeral: str = ""


GROUPED = r"[1-9]\d{0,2}(?:(?:,\d{3})+|(?:[~ ]\d{3})+|(?:'\d{3})+)(?!\d)"
WHOLE = rf"(?:{GROUPED}|\d+)"
PLAIN = rf"(?:{WHOLE}(?:\.(?:(?:\d{{3}}~)+\d{{1,3}}|\d*))?|\.\d+)"
EXPONENT = r"(?:\{ ?([+-]? ?\d+) ?\}|([+-]?\d+))"
PART = r"(\{[^{}]*\}|\d)"
FRACTION = rf"\\frac[~ ]*{PART}[~ ]*{PART}"


def read_number(text: str) -> Number | None:
    """Return the number if the whole of a normalized text is one, otherwise `None`."""
    text = text.strip(" ~")
    if not text or len(text) > LARGEST_EXPONENT:
        return None
    signs = re.match(r"(?:[+-]|[~ ])*", text)
    body = text[signs.end() :] if signs else text
    if body.endswith("%"):
        number = read_number(body[:-1])
        number = number and number._replace(is_percent=True)
    elif body.startswith("(") and body.endswith(")") and "," not in body:
        number = read_number(body[1:-1])
    else:
        number = next(filter(None, (build(match) for build, match in _matches(body))), None)
    if number and signs and signs[0].count("-") % 2:
        number = number._replace(value=-number.value, numeral=number.numeral and f"-{number.numeral}")
    return number


def _matches(text: str) -> list[tuple[Callable[[re.Match[str]], Number | None], re.Match[str]]]:
    matches = ((build, pattern.fullmatch(text)) for pattern, build in NOTATIONS.items())
    return [(build, match) for build, match in matches if match]


def _plain(match: re.Match[str]) -> Number:
    digits = re.sub("[,~' ]", "", match[0])
    whole, point, decimals = digits.partition(".")
    is_approximation = point and len((whole + decimals).lstrip("0")) >= DIGITS_OF_AN_APPROXIMATION
    step = Fraction(1, 10 ** len(decimals)) if is_approximation else Fraction(0)
    return Number(Fraction(digits), step)


def _scientific(match: re.Match[str]) -> Number | None:
    number = read_number(match[1]) if match[1] else Number(Fraction(1))
    exponent = int((match[2] or match[3]).replace(" ", ""))
    if number is None or abs(exponent) > LARGEST_EXPONENT:
        return None
    factor = Fraction(10) ** exponent
    return number._replace(value=number.value * factor, step=number.step * factor)


def _repeating(match: re.Match[str]) -> Number:
    whole, fixed, *digits = match.groups()
    whole = whole or "0"
    repeated = "".join(digits)
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
    base = int(name) if name.isdigit() else TABLE["numbers"].get(name.lower(), 0)
    digits = re.sub("[~ ]", "", match[1])
    try:
        value = Fraction(int(digits, base)) if 2 <= base <= 36 else None
    except ValueError:
        return None
    return value if value is None else Number(value, base=base, numeral=digits)


def _read_words(match: re.Match[str]) -> Number | None:
    words = re.findall(r"[A-Za-z]+|[^\s~«»-]+", match[0].lower())
    value = _sum_of_words([word for word in words if word not in ("and", "a", "an")])
    return None if value is None else Number(value)


def _sum_of_words(words: list[str]) -> Fraction | None:
    """Return the number that `words` name, such as *one hundred five*, *1.5 million* or *two thirds*; else `None`."""
    numbers, scales, parts = TABLE["numbers"], TABLE["scales"], TABLE["parts"]
    if words[:1] == ["half"] and words[1:]:
        amount = _sum_of_words(words[1:])
        return amount and amount / 2
    if words and words[-1] in parts:
        count = _sum_of_words(words[:-1]) if words[:-1] else Fraction(1)
        if count is not None and words[-1] == "half" and len(words) > 1 and words[-2] != "one":
            return count + Fraction(1, 2)
        return None if count is None else count / parts[words[-1]]
    total = current = Fraction(0)
    last_scale = None
    for position, word in enumerate(words):
        if word in scales and word not in ("hundred", "hundreds", "dozen", "dozens"):
            if last_scale is not None and scales[word] >= last_scale:
                return None
            last_scale = scales[word]
            total += (current or 1) * scales[word]
            current = Fraction(0)
        elif word in scales:
            current = (current or 1) * scales[word]
        elif word in numbers and _can_follow(current, numbers[word]) and (numbers[word] or len(words) == 1):
            current += numbers[word]
        elif position == 0 and (number := read_number(word)):
            current = number.value
        else:
            return None
    return total + current if words else None


def _can_follow(current: Fraction, number: int) -> bool:
    return current % 100 == 0 or (current % 100 >= 20 and current % 10 == 0 and number < 10)


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
    re.compile(r"(\d*)\.(\d*?)(\d)\3\3+[~ ]*\\ldots ?"): _repeating,
    re.compile(r"(\d*)\.(\d*?)(\d\d+?)\3+[~ ]*\\ldots ?"): _repeating,
    re.compile(FRACTION): _fraction,
    re.compile(r"([^/]+)/([^/]+)"): _fraction,
    re.compile(rf"({WHOLE})[~ ]*(?:«and»[~ ]*)?({FRACTION.replace('(', '(?:')}|(?<=[~ ])\d+ ?/ ?\d+)"): _read_mixed,
    re.compile(r"(?:\\overline\{|\()?([0-9A-Za-z](?:[~ ]?[0-9A-Za-z])*)[)}]?_ ?(\w|\{[^{}]+\})"): _read_based,
    re.compile(rf"(?:{PLAIN})?(?:[~ ]*(?:{WORD}|(?<=[~ ])an?(?=[~ ])))+"): _read_words,
}
