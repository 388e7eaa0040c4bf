r"""Compares formulas by value, after math-verify's parser has read them.

math-verify compares rounded values, so it takes $1/2^{98}$ and $1/2^{99}$ for equal. It reads a letter before a
bracket as a function, so it also takes $c(\gamma-3)$ and $c(\gamma-1)$ for equal. Here such a letter is a factor. Two
expressions are equal if their values agree to 12 digits at several random points. Two equations are equal if the
differences of their sides agree up to a constant factor, after clearing denominators if necessary.
"""

import random
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
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
    Symbol,
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

from steer_trl.rewards.layout import LONGEST, TABLE, compiled, rewrite

NORMALIZATION = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none")
CONVERSION = ConversionConfig(lowercase_symbols=False)
PRECISION = 1e-12
DIGITS = 30
POINTS = 4
OF_INTEGERS = (floor, ceiling, factorial, binomial)

GREEK, FUNCTIONS, OTHERS = (set(TABLE["commands"][kind].split()) for kind in ("letters", "functions", "others"))
NAMES = "|".join(sorted(GREEK | FUNCTIONS, key=len, reverse=True))

_rules = compiled(TABLE["formulas"])
_glued = re.compile(rf"\\(?!(?:{NAMES}|{'|'.join(OTHERS)})(?![A-Za-z]))({NAMES})(?=[A-Za-z])")
_before_bracket = re.compile(r"(\\[A-Za-z]+|[A-Za-z])((?:_\{?\w+\}?)?) ?\(")


def to_latex(text: str) -> str | None:
    r"""Return the LaTeX of a normalized formula, in which a letter before a bracket is a factor.

    If the formula contains words, degree signs, dots or digits separated by blanks, the result is `None`. `\pic`
    becomes `\pi c`, and `\cotx` becomes `\cot x`, because data sets lose such blanks.
    """
    text = rewrite(text, _rules)
    if "«" in text or re.search(r"\d +\d|°|\\ldots", text):
        return None
    return _before_bracket.sub(_write_factor, _glued.sub(r"\\\1 ", text))


def _write_factor(match: re.Match[str]) -> str:
    is_function = match[1][0] == "\\" and match[1][1:] not in GREEK
    return match[0] if is_function else rf"{match[1]}{match[2]}\cdot ("


# The parser leaves powers unevaluated, so even `2^{400000003}` takes little room in the cache.
@lru_cache(maxsize=64)
def parse(text: str) -> Any:
    """Return the SymPy object of a normalized formula, `None` if the parser cannot read it."""
    latex = to_latex(text) if len(text) <= LONGEST else None
    if not latex:
        return None
    is_complex = "i" in re.sub(r"_\{?\w+\}?|\\[A-Za-z]+", " ", latex)
    try:
        latex = normalize_latex(latex, NORMALIZATION)
        parsed = latex2sympy(latex, is_real=not is_complex, normalization_config=None, conversion_config=CONVERSION)
    except Exception:
        # The parser raises `Exception` and no subclass of it.
        return None
    if not isinstance(parsed, Basic | MatrixBase) or parsed.has(nan, zoo):
        return None
    imaginary = {symbol: I for symbol in parsed.free_symbols if is_complex and symbol.name == "i"}
    parsed = parsed.subs(imaginary) if imaginary else parsed
    return parsed.doit() if isinstance(parsed, MatrixExpr) else parsed


def number(text: str) -> Any:
    """Return the value of a normalized formula, or `None` if it has letters or no finite value."""
    parsed = parse(text)
    return _value(parsed, {}) if isinstance(parsed, Expr) and not parsed.free_symbols else None


def are_equal(one: Any, other: Any, step: Fraction = Fraction(0)) -> bool:
    """Return whether two parsed formulas are equal.

    `step` is the place value of the last digit of a decimal that may be rounded. Two numbers may differ by half of it.
    """
    if one == other:
        return True
    one, other = _name_derivatives(one), _name_derivatives(other)
    if isinstance(one, Expr) and isinstance(other, Expr):
        if step and not one.free_symbols | other.free_symbols:
            return bool(abs(N(one - other, DIGITS)) <= Rational(step) / 2)
        ratio = _ratio(one, other)
        return ratio is not None and _is_one(ratio)
    if isinstance(one, Relational) and isinstance(other, Relational):
        return _are_equal_relations(one, other)
    if isinstance(one, MatrixBase) and isinstance(other, MatrixBase):
        pairs = zip(one.flat(), other.flat(), strict=False)
        return one.shape == other.shape and all(are_equal(*pair) for pair in pairs)
    return False


def _name_derivatives(formula: Any) -> Any:
    # A symbol replaces each derivative, because SymPy takes the letter in it for a constant, whose derivative is 0.
    return formula.xreplace({part: Symbol(str(part)) for part in formula.atoms(Derivative)})


def _are_equal_relations(one: Relational, other: Relational) -> bool:
    if type(one) is not type(other):
        other = other.reversed
    if type(one) is not type(other):
        return False
    differences = [side.lhs - side.rhs for side in (one, other)]
    ratio = _ratio(*differences)
    if ratio is None and one.rel_op == "==":
        ratio = _ratio(*(fraction(together(side))[0] for side in differences))
    return ratio is not None and (one.rel_op in ("==", "!=") or bool(ratio > 0))


def _is_one(ratio: Any) -> bool:
    return bool(ratio == 1 if ratio.is_Rational else abs(ratio - 1) <= PRECISION)


def _ratio(one: Expr, other: Expr) -> Any:
    """Return the ratio of `one` to `other` if it is the same at all random points, otherwise `None`."""
    if one.has(Abs) != other.has(Abs):
        return None
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    ratios: list[Any] = []
    for point in _points(symbols, one.has(*OF_INTEGERS) or other.has(*OF_INTEGERS)):
        value, wanted = _value(one, point), _value(other, point)
        if value is None or wanted is None:
            continue
        if (value == 0) != (wanted == 0):
            return None
        ratios.append(value / wanted if wanted else None)
    found = [ratio for ratio in ratios if ratio is not None] or [Rational(1)]
    return found[0] if ratios and all(_is_one(ratio / found[0]) for ratio in found) else None


def _points(symbols: list[Any], of_integers: bool) -> list[dict[Any, Rational]]:
    """Return random points with small positive coordinates, so that rounding loses no term of a sum."""
    if not symbols:
        return [{}]
    dice = random.Random(0)
    if of_integers:
        return [{symbol: Rational(dice.randint(2, 9)) for symbol in symbols} for _ in range(2 * POINTS)]
    return [{symbol: Rational(dice.randint(20, 250), 97) for symbol in symbols} for _ in range(POINTS)]


def _value(expression: Expr, point: dict[Any, Rational]) -> Any:
    """Return the value at a point, as a rational or with 30 digits; `None` if it is not a finite number."""
    value = expression.subs(point).doit() if point else expression.doit()
    if value.has(nan, zoo, oo, -oo) or value.free_symbols:
        return None
    if value.is_Rational:
        return value
    value = N(value, DIGITS)
    return value if value.is_number and not value.has(nan, zoo) else None
