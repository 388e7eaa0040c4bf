r"""Answers are read as what they are: pairs written by hand, numbers in random notations, what must not be deleted."""

import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, SHARED

from steer_trl.rewards.answers import after_thought, bare
from steer_trl.rewards.golds import find_fault
from steer_trl.rewards.judge import judge

sys.path.insert(0, str(ROOT / "benchmarks"))
from labelled import make_pairs, read_pairs

WRITTEN = read_pairs()
KINDS = sorted({pair.kind for pair in WRITTEN})
DATA = Path(SHARED) / "data"


def wrong_verdicts(pairs):
    return [pair for pair in pairs if judge(bare(pair.answer), bare(pair.gold)).correct is not pair.is_right]


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_written_by_hand(kind):
    pairs = [pair for pair in WRITTEN if pair.kind == kind]
    assert len(pairs) >= 9 and {pair.is_right for pair in pairs} == {True, False}
    assert wrong_verdicts(pairs) == []


@pytest.mark.skipif(not DATA.exists(), reason="the real data sets are not beside this checkout")
def test_pairs_made_from_the_gold_answers_of_files():
    pairs = make_pairs(DATA)
    assert len(pairs) >= 3000
    assert wrong_verdicts(pairs) == []


FRACTIONS = st.builds(Fraction, st.integers(-(10**7), 10**7), st.integers(1, 9999))
INTEGERS = st.integers(-(10**12), 10**12)


def mixed(value):
    whole, rest = divmod(abs(value), 1)
    sign = "-" if value < 0 else ""
    return rf"{sign}{whole}\frac{{{rest.numerator}}}{{{rest.denominator}}}" if whole and rest else str(value)


def repeating(value):
    """Divide by hand, until a remainder comes back."""
    whole, rest = divmod(abs(value.numerator), value.denominator)
    digits, seen = "", {}
    while rest and rest not in seen:
        seen[rest] = len(digits)
        digit, rest = divmod(10 * rest, value.denominator)
        digits += str(digit)
    digits = digits if not rest else rf"{digits[: seen[rest]]}\overline{{{digits[seen[rest] :]}}}"
    return f"{'-' if value < 0 else ''}{whole}.{digits}" if digits else str(value)


def in_base(value, base):
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = str(digit) + digits
    return f"{digits or '0'}_{{{base}}}"


OF_FRACTIONS = {
    "fraction": lambda value: rf"\dfrac{{{value.numerator}}}{{{value.denominator}}}",
    "slash": str,
    "mixed": mixed,
    "repeating": repeating,
    "named": lambda value: f"x = {value}",
}
OF_INTEGERS = {
    "plain": str,
    "thousands": lambda value: f"{value:,}",
    "braces": lambda value: f"{value:,}".replace(",", "{,}"),
    "gaps": lambda value: f"{value:,}".replace(",", r"\,"),
    "power of ten": lambda value: rf"{value / 10**12:.12f} \times 10^{{12}}",
    "program": lambda value: f"{value}.0e0",
    "unit": lambda value: rf"{value}\text{{ km}}",
    "bold": lambda value: rf"\boldsymbol{{{value}}}",
}


@settings(max_examples=60, deadline=None)
@given(
    FRACTIONS.filter(lambda value: value.denominator < 300),
    FRACTIONS,
    st.sampled_from([*OF_FRACTIONS]),
    st.sampled_from([*OF_FRACTIONS]),
)
def test_fractions_are_equal_in_every_notation(value, other, one, two):
    assert judge(OF_FRACTIONS[one](value), OF_FRACTIONS[two](value)).correct
    assert judge(OF_FRACTIONS[one](value), str(other)).correct is (value == other)


@settings(max_examples=60, deadline=None)
@given(INTEGERS, INTEGERS, st.sampled_from([*OF_INTEGERS]), st.sampled_from([*OF_INTEGERS]))
def test_integers_are_equal_in_every_notation(value, other, one, two):
    assert judge(OF_INTEGERS[one](value), OF_INTEGERS[two](value)).correct
    assert judge(OF_INTEGERS[one](value), OF_INTEGERS[two](other)).correct is (value == other)


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 10**6), st.integers(2, 9), st.integers(2, 9))
def test_numbers_of_different_bases(value, base, other):
    assert judge(in_base(value, base), in_base(value, other)).correct
    assert not judge(in_base(value, base), in_base(value + 1, other)).correct


@settings(max_examples=60, deadline=None)
@given(st.lists(INTEGERS, min_size=2, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_lists_have_no_order_and_a_length(values, dice):
    shuffled = dice.sample(values, len(values))
    one, other = (", ".join(map(str, part)) for part in (shuffled, values))
    assert judge(one, rf"\{{{other}\}}").correct
    assert judge(f"({one})", f"({other})").correct is (shuffled == values)
    assert not judge(f"{one}, {values[0]}", other).correct
    assert not judge(", ".join(map(str, values[1:])) if len(values) > 2 else str(values[1]), other).correct


DELETABLE = ["i", "e", "x", "million", "dozen", "squared", "factorial", "or 7", "mod 7", "thirds"]


@pytest.mark.parametrize("word", DELETABLE)
@pytest.mark.parametrize("command", ["text", "mathrm", "textbf", "mbox"])
def test_nothing_that_is_mathematics_is_deleted(word, command):
    assert not judge(rf"9\{command}{{ {word}}}", "9").correct
    assert not judge("9", rf"9\{command}{{ {word}}}").correct


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a", ""),
        ("<think>a</think>b<think>c", ""),
        ("<Thinking>a</Thinking>b", "b"),
        ("[THINK]a[/THINK]b", "b"),
        ("<reasoning>a", ""),
        ("<|begin_of_thought|>a", ""),
        ("<|begin_of_thought|>a<|end_of_thought|>b", "b"),
        ("<|START_THINKING|>a", ""),
        ("<|START_THINKING|>a<|END_THINKING|>b", "b"),
        ("<thoughts>a", ""),
        ("<scratchpad>a</scratchpad>b", "b"),
        ("◁think▷a", ""),
        ("<|channel|>analysis<|message|>a", ""),
        ("<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b", "<|message|>b"),
        ("<b>a</b>", "<b>a</b>"),
        ("The end_of_thought", "The end_of_thought"),
        ("I think a", "I think a"),
    ],
)
def test_a_thought_is_no_answer(text, rest):
    assert after_thought(text) == rest


@pytest.mark.parametrize(
    ("gold", "fault"),
    [
        ("7", None),
        (r"\frac{2}{9}x", None),
        ("3e-7", None),
        (r"8\text{ m/s}", None),
        ("7 (approx.)", None),
        ("QED", "proof"),
        ("q.e.d.", "proof"),
        (r"\Box", "proof"),
        ("not found", "no answer"),
        ("null", "no answer"),
        (r"\text{None}", "no answer"),
        ("(N/A)", "no answer"),
        ("n.a.", "no answer"),
        ("nan", "no answer"),
        ("def add(a, b):\n    return a + b", "program"),
        ('[{"input": "1", "output": "2"}]', "program"),
        ("int main(void) { return 7; }", "program"),
        ("n = int(input())\nprint(n)", "program"),
        ("assert double(2) == 4", "program"),
        ('{"answers": ["7"]}', "structure"),
        ("the smallest such number", "only equal to itself"),
        ("t(0,4]", "only equal to itself"),
    ],
)
def test_a_gold_answer_is_tried_in_another_notation(gold, fault):
    assert find_fault(gold) == fault
