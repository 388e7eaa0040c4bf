r"""Compares formulas by value, after math-verify's parser has read them.

math-verify compares rounded values, so it takes $1/2^{98}$ and $1/2^{99}$ for equal. It reads a letter before a
bracket as a function, so it also takes $c(\gamma-3)$ and $c(\gamma-1)$ for equal. Here such a letter is a factor. Two
expressions are equal if their values agree at several random points. The values have so many digits that a term of the
size of 1 is not lost beside the largest power, as in $2023^{2023n}-1$. Two equations are equal if the differences of
their sides agree up to a constant factor, after clearing denominators if necessary.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify.parser import normalize_latex
from sympy import (
    Basic,
    Derivative,
    Expr,
    Float,
    Function,
    I,
    MatrixBase,
    MatrixExpr,
    N,
    Pow,
    Rational,
    Symbol,
    fraction,
    log,
    nan,
    oo,
    together,
    zoo,
)
from sympy.core.relational import Relational

from steer_trl.rewards.normalization import LONGEST, TABLE, compiled, rewrite
from steer_trl.rewards.points import choose_points, is_of_integers

NORMALIZATION = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none")
CONVERSION = ConversionConfig(lowercase_symbols=False)
# Significant digits of a value, beyond those that its largest and its smallest term lie apart.
DIGITS = 30
# The last digits of a value may be rounded.
GUARD_DIGITS = 8
# A formula whose value needs more digits is only equal to itself.
MOST_DIGITS = 50_000
# Points at which two formulas that seem to be equal are compared with all digits. They are closer to 0, where a power
# has fewer digits.
FINE_POINTS = 2
CLOSER = Rational(1, 8)

GREEK, FUNCTIONS, OTHERS = (set(TABLE["commands"][kind].split()) for kind in ("letters", "functions", "others"))
NAMES = "|".join(sorted(sorted(GREEK | FUNCTIONS), key=len, reverse=True))

_rules = compiled(TABLE["formulas"])
_glued = re.compile(rf"\\(?!(?:{NAMES}|{'|'.join(sorted(OTHERS))})(?![A-Za-z]))({NAMES})(?=[A-Za-z])")
GROUPED = re.compile(r"(?<![\d.~])\d{1,3}(?:~\d{3})+(?![\d.~])")
UNREADABLE = re.compile(r"\d +\d|°|\\ldots|\\crossproduct|\\nabla|\\angle ?[A-Z]{3}")
# The parser lets a function's argument go on after a dot: it reads `\sin x\cdot y` as $\sin xy$.
_argument = re.compile(
    rf"(\\(?:{'|'.join(sorted(FUNCTIONS - {'sqrt'}))})(?:_\{{\w+\}})?(?:\^\{{-?\d+\}})?) ?"
    rf"((?:\\(?:{'|'.join(sorted(GREEK))})(?![A-Za-z]) ?|\w)+|\\frac\{{[^{{}}]*\}}\{{[^{{}}]*\}}) ?(?=\\cdot)"
)
_before_bracket = re.compile(r"(\\[A-Za-z]+|[A-Za-z])((?:_\{?\w+\}?)?) ?\(")


def to_latex(text: str) -> str | None:
    r"""Return the LaTeX of a normalized formula, in which a letter before a bracket is a factor.

    If the formula contains words, degree signs, dots, cross products, angles like `\angle ABC` or digits separated by
    blanks, the result is `None`. `\pic` becomes `\pi c`, and `\cotx` becomes `\cot x`, because data sets lose such
    blanks.
    """
    text = GROUPED.sub(lambda match: match[0].replace("~", ""), text)
    text = rewrite(text, _rules)
    if "«" in text or UNREADABLE.search(text):
        return None
    text = _argument.sub(r"\1(\2)", _glued.sub(r"\\\1 ", text))
    return _before_bracket.sub(_write_factor, text)


def _write_factor(match: re.Match[str]) -> str:
    is_function = match[1][0] == "\\" and match[1][1:] not in GREEK
    return match[0] if is_function else rf"{match[1]}{match[2]}\cdot ("


# The parser leaves powers unevaluated, so even `2^{400000003}` takes little room in the cache.
@lru_cache(maxsize=64)
def parse(text: str) -> Any:
    """Return the SymPy object of a normalized formula, `None` if the parser cannot read it."""
    latex = to_latex(text) if len(text) <= LONGEST else None
    # The parser would work on open brackets in vain, for a time that grows with the cube of their number.
    if not latex or any(latex.count(opening) != latex.count(closing) for opening, closing in ("()", "{}")):
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
    # A decimal is exact. SymPy keeps 15 digits of it otherwise.
    decimals = {decimal: Rational(str(decimal)) for decimal in parsed.atoms(Float)}
    parsed = parsed.xreplace(decimals) if decimals else parsed
    parsed = parsed if is_complex else _take_real_roots(parsed)
    return parsed.doit() if isinstance(parsed, MatrixExpr) else parsed


def _take_real_roots(parsed: Basic | MatrixBase) -> Basic | MatrixBase:
    """Replace odd roots of negative numbers by the real ones. SymPy means complex ones."""
    roots = {
        power: (-1) ** power.exp.p * (-power.base) ** power.exp
        for power in parsed.atoms(Pow)
        if power.exp.is_Rational and power.exp.q % 2 == 1 and power.exp.q > 1 and power.base.is_negative
    }
    return parsed.xreplace(roots) if roots else parsed


def number(text: str) -> Any:
    """Return the value of a normalized formula, or `None` if it has letters or no finite value."""
    parsed = parse(text)
    return _value(parsed, {}) if isinstance(parsed, Expr) and not parsed.free_symbols else None


def are_equal(first: Any, second: Any, step: Fraction = Fraction(0)) -> bool:
    """Return whether two parsed formulas are equal.

    `step` is the place value of the last digit of a decimal that may be rounded. Two numbers may differ by half of it.
    """
    if first == second:
        return True
    first, second = _name_derivatives(first), _name_derivatives(second)
    if isinstance(first, Expr) and isinstance(second, Expr):
        if step and not first.free_symbols | second.free_symbols:
            return bool(abs(N(first - second, DIGITS)) <= Rational(step) / 2)
        ratio = _ratio(first, second)
        return ratio is not None and _is_one(ratio)
    if isinstance(first, Relational) and isinstance(second, Relational):
        return _are_equal_relations(first, second)
    if isinstance(first, MatrixBase) and isinstance(second, MatrixBase):
        pairs = zip(first.flat(), second.flat(), strict=False)
        return first.shape == second.shape and all(are_equal(*pair) for pair in pairs)
    return False


def _name_derivatives(formula: Any) -> Any:
    # A symbol replaces each derivative, because SymPy takes the letter in it for a constant, whose derivative is 0.
    return formula.xreplace({part: Symbol(str(part)) for part in formula.atoms(Derivative)})


def _are_equal_relations(first: Relational, second: Relational) -> bool:
    if type(first) is not type(second):
        second = second.reversed
    if type(first) is not type(second):
        return False
    differences = [side.lhs - side.rhs for side in (first, second)]
    ratio = _ratio(*differences)
    if ratio is None and first.rel_op == "==":
        ratio = _ratio(*(fraction(together(side))[0] for side in differences))
    return ratio is not None and (first.rel_op in ("==", "!=") or bool(ratio > 0))


def _is_one(ratio: Any, digits: int = DIGITS) -> bool:
    return bool(ratio == 1 if ratio.is_Rational else abs(ratio - 1) <= Rational(10) ** (GUARD_DIGITS - digits))


def _ratio(first: Expr, second: Expr) -> Any:
    """Return the ratio of `first` to `second` if it is the same at all random points, otherwise `None`."""
    points = choose_points(first, second)
    # Most formulas that differ do so in the first digits.
    if _ratio_at(first, second, points, DIGITS) is None:
        return None
    fine_points = points[:FINE_POINTS]
    if not (is_of_integers(first) or is_of_integers(second)):
        fine_points = [{symbol: CLOSER * value for symbol, value in point.items()} for point in fine_points]
    digits = max(_digits_needed(side, point) for side in (first, second) for point in fine_points)
    return _ratio_at(first, second, fine_points, digits) if digits <= MOST_DIGITS else None


def _ratio_at(first: Expr, second: Expr, points: list[dict[Any, Rational]], digits: int) -> Any:
    """Return the ratio if it is the same at all of the points to the number of digits, otherwise `None`."""
    ratios: list[Any] = []
    for point in points:
        first_value, second_value = _value(first, point, digits), _value(second, point, digits)
        if first_value is None or second_value is None:
            continue
        if (first_value == 0) != (second_value == 0):
            return None
        ratios.append(first_value / second_value if second_value else None)
    # At a point where both values are 0, any ratio will do.
    finite = [ratio for ratio in ratios if ratio is not None] or [Rational(1)]
    return finite[0] if ratios and all(_is_one(ratio / finite[0], digits) for ratio in finite) else None


def _digits_needed(formula: Expr, point: dict[Any, Rational]) -> int:
    """Return the number of digits with which no term of a formula is lost beside another one at a point."""
    sizes = [0]
    for part in formula.atoms(Pow, Function, Rational):
        value = _value(part, point, GUARD_DIGITS)
        if value is not None and value != 0:
            sizes.append(abs(int(N(log(abs(value), 10), GUARD_DIGITS))))
    return DIGITS + sum(sizes)


def _value(expression: Expr, point: dict[Any, Rational], digits: int = DIGITS) -> Any:
    """Return the value at a point, as a rational or with so many digits; `None` if it is not a finite number."""
    value = expression.subs(point).doit() if point else expression.doit()
    if value.has(nan, zoo, oo, -oo) or value.free_symbols:
        return None
    if value.is_Rational:
        return value
    value = N(value, digits, maxn=2 * digits + 100)
    return value if value.is_number and not value.has(nan, zoo) else None
