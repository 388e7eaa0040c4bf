r"""Reads formulas with math-verify's parser, and compares their values.

math-verify's own comparison rounds values, so that $1/2^{98}$ equals $1/2^{99}$. It reads a letter before a bracket as
a function, so that $c(\gamma-3)$ equals $c(\gamma-1)$. Here such a letter is a factor. Two expressions are equal if
their values agree to 12 digits at several points. Two equations are equal if the differences of their sides have a
constant ratio.
"""

import random
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify import verify
from math_verify.parser import normalize_latex
from sympy import (
    Abs,
    Basic,
    Derivative,
    Expr,
    I,
    MatrixBase,
    MatrixExpr,
    N,
    Rational,
    binomial,
    ceiling,
    factorial,
    floor,
    fraction,
    nan,
    oo,
    together,
    zoo,
)
from sympy.core.relational import Relational

from steer_trl.rewards.layout import LONGEST, TABLE

NORMALIZATION = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none")
CONVERSION = ConversionConfig(lowercase_symbols=False)
PRECISION = 1e-12
DIGITS = 30
POINTS = 4
OF_INTEGERS = (floor, ceiling, factorial, binomial)

GREEK, FUNCTIONS, OTHERS = (set(TABLE["commands"][kind].split()) for kind in ("letters", "functions", "others"))
COMMANDS = sorted(GREEK | FUNCTIONS, key=len, reverse=True)
_command = re.compile(r"\\([A-Za-z]+)")
_before_bracket = re.compile(r"(\\[A-Za-z]+|[A-Za-z])((?:_\{?\w+\}?)?) ?\(")
_arguments = re.compile(r"([\^_]) ?(\d)")


def to_latex(text: str) -> str | None:
    """Return LaTeX for the parser, with a `\\cdot` between a letter and a bracket.

    Returns `None` if the text has words or a gap between digits.
    """
    text = re.sub(r"_\{?(?:«(\w+)»|\\(\w+) ?)\}?", r"_{\1\2}", text)
    text = re.sub(r"~*«([A-Za-z])»~*", r"\1 ", text)
    text = _arguments.sub(r"\1{\2}", text)
    text = re.sub(r"\\(frac|binom) ?(\d) ?(\d)(?!\d)", r"\\\1{\2}{\3}", text)
    text = re.sub(r"\\(frac|binom) ?(\{[^{}]*\}) ?(\d)", r"\\\1\2{\3}", text)
    text = re.sub(r"(?<![\w^}.)/])(\d+) ?/ ?(\d+)(?![\d^!/.])", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\sqrt ?(\d)", r"\\sqrt{\1}", text)
    if "«" in text or re.search(r"\d[ ~]+\d|°", text):
        return None
    text = text.replace("~", " ")
    text = _command.sub(lambda match: _separate(match[1]), text)
    text = re.sub(r"(?<![A-Za-z])([A-Za-z])('+)", r"\1_{prime}", text)
    text = re.sub(r"(?<!_\{)(?<![\\A-Za-z])([A-Za-z]*?)([EI])(?:_\{?(\w+)\}?)?(?![a-z}])", r"\1Y_{\2\3}", text)
    text = re.sub(r"\\gamma(?![A-Za-z])", "y_{gamma}", text)
    text = re.sub(r"\\Gamma(?![A-Za-z( ])", "Y_{Gamma}", text)
    return _before_bracket.sub(_write_factor, text)


def _write_factor(match: re.Match[str]) -> str:
    is_function = match[1][0] == "\\" and match[1][1:] not in GREEK
    return match[0] if is_function else rf"{match[1]}{match[2]}\cdot ("


def _separate(command: str) -> str:
    r"""Write `\pic` as `\pi c` and `\cotx` as `\cot x`, because data sets lose such blanks."""
    if (
        command in OTHERS
        or command in COMMANDS
        or not (start := next((name for name in COMMANDS if command.startswith(name)), ""))
    ):
        return "\\" + command
    return f"\\{start} {command[len(start) :]}"


@lru_cache(maxsize=64)  # formulas are not evaluated, so that `2^{400000003}` stays small
def parse(text: str) -> Any:
    """Return the SymPy object of a normalized formula, `None` if the parser cannot read it."""
    latex = to_latex(text) if len(text) <= LONGEST else None
    if not latex:
        return None
    is_complex = "i" in re.sub(r"_\{?\w+\}?|\\[A-Za-z]+", " ", latex)
    try:
        latex = normalize_latex(latex, NORMALIZATION)
        parsed = latex2sympy(latex, is_real=not is_complex, normalization_config=None, conversion_config=CONVERSION)
    except Exception:  # the parser raises plain exceptions for whatever it cannot read
        return None
    imaginary = [symbol for symbol in getattr(parsed, "free_symbols", ()) if symbol.name == "i"]
    return parsed.subs(dict.fromkeys(imaginary, I)) if imaginary and is_complex else parsed


def number(text: str) -> Any:
    """Return the value of a normalized formula, `None` if it has letters or no finite value."""
    parsed = parse(text)
    return _value(parsed, {}) if isinstance(parsed, Expr) and not parsed.free_symbols else None


def are_equal(one: Any, other: Any, step: Fraction = Fraction(0)) -> bool:
    """Return whether two parsed formulas are equal.

    `step` is the unit of the last digit of a decimal that may be rounded, so the numbers may differ by half of it.
    """
    if any(side.has(nan, zoo) for side in (one, other) if isinstance(side, Basic)):
        return False
    one, other = (side.doit() if isinstance(side, MatrixExpr) else side for side in (one, other))
    if one == other:
        return True
    if any(isinstance(side, Basic) and side.has(Derivative) for side in (one, other)):
        return False  # the derivative of a letter has the value 0, whatever it stands for
    if isinstance(one, Expr) and isinstance(other, Expr):
        if step and not one.free_symbols | other.free_symbols:
            return bool(abs(N(one - other, DIGITS)) <= Rational(step.numerator, 2 * step.denominator))
        ratio = _ratio(one, other)
        return ratio is not None and _is_one(ratio)
    if isinstance(one, Relational) and isinstance(other, Relational):
        return _are_equal_relations(one, other)
    if isinstance(one, MatrixBase) and isinstance(other, MatrixBase):
        pairs = zip(one.flat(), other.flat(), strict=False)
        return one.shape == other.shape and all(are_equal(*pair) for pair in pairs)
    if isinstance(one, (Expr, Relational)) or isinstance(other, (Expr, Relational)):
        return False
    return bool(verify(other, one, timeout_seconds=None))


def _are_equal_relations(one: Relational, other: Relational) -> bool:
    if type(one) is not type(other) and type(one) is type(other.reversed):
        other = other.reversed
    if type(one) is not type(other):
        return False
    differences = [side.lhs - side.rhs for side in (one, other)]
    ratio = _ratio(*differences)
    if one.rel_op in ("==", "!="):
        return ratio is not None or _ratio(*(fraction(together(side))[0] for side in differences)) is not None
    return ratio is not None and bool(ratio > 0)


def _is_one(ratio: Any) -> bool:
    return bool(ratio == 1 if ratio.is_Rational else abs(ratio - 1) <= PRECISION)


def _ratio(one: Expr, other: Expr) -> Any:
    """Return the ratio of `one` to `other` if it is the same at all random points, otherwise `None`."""
    if one.has(Abs) != other.has(Abs):
        return None
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    ratios: list[Any] = []
    for point in _points(symbols, one.has(*OF_INTEGERS) or other.has(*OF_INTEGERS)):
        values = [_value(side, point) for side in (one, other)]
        if None in values:
            continue
        if values[0] == values[1] == 0:
            ratios.append(None)
        elif 0 in values:
            return None
        else:
            ratios.append(values[0] / values[1])
    found = [ratio for ratio in ratios if ratio is not None]
    if not ratios or not all(_is_one(ratio / found[0]) for ratio in found):
        return None
    return found[0] if found else Rational(1)


def _points(symbols: list[Any], of_integers: bool) -> list[dict[Any, Rational]]:
    """Return random points: positive and small values of the symbols, so that rounding loses no term of a sum."""
    if not symbols:
        return [{}]
    dice = random.Random(0)
    if of_integers:
        return [{symbol: Rational(dice.randint(2, 9)) for symbol in symbols} for _ in range(2 * POINTS)]
    return [{symbol: Rational(dice.randint(20, 250), 97) for symbol in symbols} for _ in range(POINTS)]


def _value(expression: Expr, point: dict[Any, Rational]) -> Any:
    """Return the value at a point, an exact rational or 30 digits; `None` if it is not a finite number."""
    value = expression.subs(point).doit() if point else expression.doit()
    if value.has(nan, zoo, oo, -oo) or value.free_symbols:
        return None
    if value.is_Rational:
        return value
    value = N(value, DIGITS)
    return value if value.is_number and not value.has(nan, zoo) else None
