"""Pairs of answers and gold answers with the right verdict, from `answers.txt` and from files with gold answers.

Each gold answer of a file is rewritten in other notations, which must score. It is also changed in one digit, sign or
part, and the changed answers must not score. Nothing here uses the package: Python's fractions write the notations of
a number.
"""

import random
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from datasets import Dataset

WRITTEN = Path(__file__).with_name("answers.txt")
GOLDS_OF_A_FILE = 125
NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?")
PLACES = re.compile(r"(?<![_\w.{\d])\d+(?![\d}]*[}_])")


class Pair(NamedTuple):
    """An answer and a gold answer, both without a box; `kind` names the notation or the change."""

    answer: str
    gold: str
    is_right: bool
    kind: str


def read_pairs() -> list[Pair]:
    """Return the pairs that were written by hand."""
    pairs, kind = [], ""
    for line in WRITTEN.read_text("utf-8").splitlines():
        if line.startswith("# "):
            kind = line[2:]
        elif line[:2] in ("+ ", "- "):
            answer, gold = line[2:].split(" ¦ ")
            pairs.append(Pair(answer, gold, line[0] == "+", kind))
    return pairs


def make_pairs(folder: Path) -> list[Pair]:
    """Make pairs from the gold answers in the Parquet files of a folder, which are in verl's schema."""
    dice = random.Random(0)
    pairs = []
    for path in sorted(folder.glob("*.parquet")):
        truths = (str(row["ground_truth"]) for row in Dataset.from_parquet(str(path))["reward_model"])
        golds = sorted(set(truths))
        for gold in dice.sample(golds, min(GOLDS_OF_A_FILE, len(golds))):
            pairs += [Pair(answer, gold, True, kind) for kind, answer in rewrite(gold, dice)]
            pairs += [Pair(answer, gold, False, kind) for kind, answer in change(gold, dice)]
    return pairs


def rewrite(gold: str, dice: random.Random) -> Iterator[tuple[str, str]]:
    """Yield two notations of a number, or two layouts of any other answer, each with its kind."""
    gold = re.sub(r"^(-?\d{1,3})((?:,\d{3})+)$", lambda match: match[0].replace(",", ""), gold)
    number = NUMBER.fullmatch(gold)
    notations = _notations(Fraction(gold), gold) if number else _layouts(gold)
    yield from dice.sample(sorted(notations.items()), 2)


def _notations(value: Fraction, gold: str) -> dict[str, str]:
    exponent = len(str(abs(value.numerator) // value.denominator)) - 1
    while value and abs(value) < Fraction(10) ** exponent:
        exponent -= 1
    mantissa = value / Fraction(10) ** exponent
    notations = {
        "scientific": rf"{_decimal(mantissa)} \times 10^{{{exponent}}}",
        "fraction": rf"\frac{{{2 * value.numerator}}}{{{2 * value.denominator}}}",
        "bold": rf"\mathbf{{{_decimal(value)}}}",
        "equation": f"x = {_decimal(value)}",
        "unit": rf"{_decimal(value)}\,\mathrm{{cm}}",
        "full width": _decimal(value).translate({ord("0") + i: 0xFF10 + i for i in range(10)}),
        "sentence": rf"\text{{The answer is }} {_decimal(value)}.",
    }
    if value.denominator == 1 and abs(value) >= 1000:
        notations["thousands"] = f"{value.numerator:,}".replace(",", r"{,}")
        notations["spaces"] = f"{value.numerator:,}".replace(",", r"\,")
    return notations


def _decimal(value: Fraction) -> str:
    sign, value, places = "-" if value < 0 else "", abs(value), 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = str((value * 10**places).numerator).rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else sign + digits


def _layouts(gold: str) -> dict[str, str]:
    layouts = {
        "displayed": rf"\displaystyle {gold}".replace(r"\frac", r"\dfrac"),
        "coloured": rf"\textcolor{{red}}{{{gold}}}",
        "dollars": f"${gold}$" if "$" not in gold else gold,
        "aligned": rf"\begin{{aligned}} {gold} \end{{aligned}}",
        "gaps": re.sub(r"(?<=[\d}]),(?=[\d(\\-])", r",\ ", gold),
        "full stop": f"{gold}.",
    }
    if not re.search(r"\\[{}]|\\left|sqrt\[", gold):
        opened = re.sub(r"([(\[])", r"\\left\1", gold)
        layouts["large brackets"] = re.sub(r"([\])])", r"\\right\1", opened)
    return layouts


def change(gold: str, dice: random.Random) -> Iterator[tuple[str, str]]:
    """Yield answers that differ from the gold one in a digit, in the sign, or in the number of parts."""
    number = NUMBER.fullmatch(gold)
    places = list(re.finditer(r"\d+", gold) if number else PLACES.finditer(gold))
    if places:
        place = dice.choice(places)
        index = place.start() + dice.randrange(len(place[0]))
        digit = str((int(gold[index]) + dice.randint(1, 8)) % 10)
        changed = gold[:index] + digit + gold[index + 1 :]
        if not number or Fraction(changed) != Fraction(gold):
            yield "digit", changed
    if number and Fraction(gold):
        yield "sign", gold[1:] if gold.startswith("-") else f"-{gold}"
        yield "factor of ten", _decimal(Fraction(gold) * 10)
    if re.fullmatch(r"[\d, -]+", gold) and "," in gold:
        yield "part", gold.rsplit(",", 1)[0]
