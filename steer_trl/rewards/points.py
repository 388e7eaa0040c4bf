r"""Points at which two formulas are compared by value.

Formulas that differ must differ at one of the points. Most of them differ everywhere, so a few random points near 1
are enough. Three kinds agree on a large part of the numbers, and have points of their own:

| kind | where such formulas differ |
|---|---|
| branches: $|x-5|$, $\max(x,3)$, $\sqrt{x^2-6x+9}$, $\arccos(\cos x)$ | far from 0, beyond every number in it |
| rounding: $\lfloor n/10\rfloor$, $\lceil x\rceil$ | at whole numbers, between them, near multiples of a denominator |
| counting: $\binom{n}{15}$, $n!$ | at whole numbers, also above those in it |

Coordinates are positive unless there is an absolute value.
"""

import random
from collections.abc import Iterable
from typing import Any

from sympy import Abs, Expr, Integer, Max, Min, Pow, Product, Rational, Sum, binomial, ceiling, exp, factorial, floor
from sympy.functions.elementary.trigonometric import InverseTrigonometricFunction, TrigonometricFunction

from steer_trl.rewards.normalization import TABLE

Point = dict[Any, Rational]

ROUNDINGS = (floor, ceiling)
COUNTS = (factorial, binomial, Sum, Product)
OF_INTEGERS = (*ROUNDINGS, *COUNTS)
# In a rounded formula these letters, and Greek ones, are real numbers. The others are whole numbers.
REAL_LETTERS = {*"rstuvwxyz", *TABLE["commands"]["letters"].split()}
NEAR = 4
FAR = 6
# The number of points of a rounded formula.
ROUNDED = 100
# Coordinates stay below the first limit, and below the second one if a letter is in an exponent.
LARGEST = 10**12
LARGEST_EXPONENT = 20
# The largest whole number in a binomial coefficient beyond which there are points.
LARGEST_COUNT = 60


def choose_points(first: Expr, second: Expr) -> list[Point]:
    """Return the points at which two formulas are compared. The first four are the closest to 0."""
    symbols = sorted(first.free_symbols | second.free_symbols, key=str)
    if not symbols:
        return [{}]
    dice = random.Random(0)
    formulas = (first, second)
    if any(formula.has(*COUNTS) for formula in formulas):
        ranges = [(2, 9)] * (2 * NEAR) + _ranges_of_counts(formulas)
        return [{symbol: Rational(dice.randint(*ends)) for symbol in symbols} for ends in ranges]
    if any(formula.has(*ROUNDINGS) for formula in formulas):
        places = {symbol: _places(symbol, formulas, dice) for symbol in symbols}
        return [{symbol: places[symbol][index] for symbol in symbols} for index in range(ROUNDED)]
    signs = (-1, 1) if any(map(_has_absolute_value, formulas)) else (1,)
    sizes = [1] * (NEAR * len(signs)) + (_sizes(formulas) * len(signs) if any(map(_has_branches, formulas)) else [])
    return [{symbol: dice.choice(signs) * size * _near_one(dice) for symbol in symbols} for size in sizes]


def is_of_integers(formula: Expr) -> bool:
    """Return whether a formula has a function of whole numbers, such as a factorial."""
    return bool(formula.has(*OF_INTEGERS))


def _near_one(dice: random.Random) -> Rational:
    return Rational(dice.randint(20, 250), 97)


def _has_absolute_value(formula: Expr) -> bool:
    r"""Return whether a formula has an absolute value, which may be written as $\sqrt{x^2}$."""
    return formula.has(Abs, Max, Min) or any(isinstance(base, Pow) and base.exp.is_even for base in _roots(formula))


def _has_branches(formula: Expr) -> bool:
    has_root_of_sum = any(base.is_Add for base in _roots(formula))
    angles = formula.atoms(InverseTrigonometricFunction)
    has_angle_of_angle = any(angle.args[0].has(TrigonometricFunction) for angle in angles)
    return has_root_of_sum or has_angle_of_angle or _has_absolute_value(formula)


def _roots(formula: Expr) -> list[Any]:
    return [power.base for power in formula.atoms(Pow) if not power.exp.is_integer]


def _sizes(formulas: Iterable[Expr]) -> list[Rational]:
    """Return sizes from 1 to more than the quotient of any two numbers in the formulas."""
    largest = max(_whole_numbers(formulas), default=1)
    farthest = min(4 * largest**2, LARGEST_EXPONENT if _has_letter_in_exponent(formulas) else LARGEST)
    return [Rational(int(farthest ** (step / FAR)) + 1) for step in range(1, FAR + 1)]


def _whole_numbers(formulas: Iterable[Expr]) -> set[int]:
    """Return the positive numerators and denominators in the formulas."""
    numbers = {number for formula in formulas for number in formula.atoms(Rational)}
    parts = {abs(int(part)) for number in numbers for part in (number.p, number.q)}
    return {part for part in parts if 0 < part <= LARGEST}


def _has_letter_in_exponent(formulas: Iterable[Expr]) -> bool:
    powers = (power for formula in formulas for power in formula.atoms(Pow, exp))
    return any(power.exp.free_symbols for power in powers)


def _ranges_of_counts(formulas: Iterable[Expr]) -> list[tuple[int, int]]:
    """Return ranges above the whole numbers in binomial coefficients, which are 0 at smaller ones."""
    counts = [count for formula in formulas for part in formula.atoms(binomial) for count in part.atoms(Integer)]
    largest = max((abs(int(count)) for count in counts), default=0)
    return [(largest, largest + 9)] * NEAR if 9 <= largest <= LARGEST_COUNT else []


def _places(symbol: Any, formulas: Iterable[Expr], dice: random.Random) -> list[Rational]:
    """Return values of a letter in a rounded formula, in random order but for the first four, which are small."""
    # The parser leaves `n/10` as a power of 10, so that 10 is not a denominator.
    numbers = _whole_numbers(formulas)
    largest = LARGEST_EXPONENT if _has_letter_in_exponent(formulas) else LARGEST
    jumps = {
        times * period + sign * shift + step
        for period in numbers | {1}
        for times in (1, 3)
        for shift in numbers | {0}
        for sign in (-1, 1)
        for step in (-1, 0, 1)
    }
    jumps = {jump for jump in jumps if 0 < jump <= largest}
    smooth_places = set(range(1, 2 * LARGEST_EXPONENT)) - jumps
    wholes = [*dice.sample(sorted(jumps), len(jumps)), *dice.sample(sorted(smooth_places), len(smooth_places))]
    places = [Rational(whole) for whole in wholes]
    is_real = symbol.name.split("_")[0] in REAL_LETTERS
    if is_real:
        places = places[: ROUNDED // 2] + [dice.randint(1, 20) * _near_one(dice) for _ in range(ROUNDED // 2)]
        dice.shuffle(places)
    small = [_near_one(dice) if is_real else Rational(dice.randint(2, 9)) for _ in range(NEAR)]
    return (small + places * ROUNDED)[:ROUNDED]
