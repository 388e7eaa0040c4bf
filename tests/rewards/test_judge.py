r"""Answers are read as what they are: pairs written by hand, numbers in random notations, what must not be deleted."""

import re
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, SHARED, fresh_pairs, near_pairs

from steer_trl.rewards.answers import after_thought, bare, last_boxed
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


@pytest.mark.parametrize("sample", [fresh_pairs, near_pairs])
@pytest.mark.parametrize("is_right", [True, False])
def test_pairs_written_before_the_grader_was_read(sample, is_right):
    pairs = sample.RIGHT if is_right else sample.WRONG
    assert len(pairs) >= 50
    answers = [last_boxed(after_thought(completion)) for _, _, completion in pairs]
    verdicts = [
        answer is not None and judge(answer, bare(gold)).correct
        for answer, (_, gold, _) in zip(answers, pairs, strict=True)
    ]
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is not is_right] == []


@settings(max_examples=12, deadline=None)
@given(st.integers(2, 3000), st.integers(1, 900), st.integers(0, 99), st.integers(1, 9))
def test_a_term_is_not_lost_beside_a_large_power(base, slope, offset, term):
    power = f"{base}^{{{slope}n+{offset}}}"
    assert judge(rf"{base}^{{{offset}}} \cdot {base}^{{{slope}n}}", power).correct
    for sign in "+-":
        assert not judge(f"{power}{sign}{term}", power).correct
        assert not judge(f"y={power}{sign}{term}", f"y={power}").correct
    assert judge(f"{power}-{term}", f"-{term}+{power}").correct


@settings(max_examples=30, deadline=None)
@given(st.integers(-99, 99), st.integers(-99, 99))
def test_absolute_values(one, other):
    assert judge(f"|{one}-({other})|", str(abs(one - other))).correct
    assert judge(str(abs(one)), f"|{one}|").correct
    assert judge(str(-abs(one)), f"|{one}|").correct is (one == 0)


def interval(ends, kind):
    low, high = min(ends), max(ends) + 1
    return f"{kind[0]}{low},{high}{kind[1]}", {
        place / 2
        for place in range(-2, 20)
        if low < place / 2 < high or (place / 2 == low and kind[0] == "[") or (place / 2 == high and kind[1] == "]")
    }


SETS = st.one_of(
    st.builds(
        interval, st.lists(st.integers(0, 5), min_size=2, max_size=2), st.sampled_from(["()", "[]", "(]", "[)"])
    ),
    st.sets(st.integers(0, 6), min_size=1, max_size=3).map(
        lambda members: (rf"\{{{','.join(map(str, sorted(members)))}\}}", {float(member) for member in members})
    ),
)
UNIONS = st.lists(SETS, min_size=2, max_size=4)


@settings(max_examples=80, deadline=None)
@given(UNIONS, UNIONS)
def test_unions_are_equal_if_their_members_are(one, other):
    # The ends are whole numbers, so the whole and half numbers show every difference.
    texts = [r" \cup ".join(text for text, _ in parts) for parts in (one, other)]
    members = [set().union(*(part for _, part in parts)) for parts in (one, other)]
    assert judge(*texts).correct is (members[0] == members[1])
    assert judge(r"\cup".join(text for text, _ in reversed(one)), texts[0]).correct


@pytest.mark.parametrize(
    ("answer", "gold", "is_correct"),
    [
        # Integers of more digits than Python writes in decimal.
        (r"2^{65536}", r"2^{65536}", True),
        (r"2^{65536}", r"2^{65537}", False),
        # Odd roots of negative numbers are real, unless the other side is complex.
        (r"\sqrt[3]{-8}", "-2", True),
        (r"-\sqrt[3]{2}", r"\sqrt[3]{-2}", True),
        (r"\sqrt[5]{-32}+1", "-1", True),
        (r"1", r"\sqrt[3]{2+\sqrt5}+\sqrt[3]{2-\sqrt5}", True),
        (r"1+\sqrt{3}i", r"\sqrt[3]{-8}", False),
        (r"\sqrt{-4}", "2i", True),
        # A word with a meaning for the value is no label.
        *((rf"\text{{{word}: }}5", "5", False) for word in ("not", "negative", "at least", "more than", "incorrect")),
        *((rf"\text{{{word}: }}5", "5", True) for word in ("Answer", "The answer is", "The final value")),
    ],
)
def test_a_reviewers_answers(answer, gold, is_correct):
    assert judge(answer, gold).correct is is_correct


SYMBOLS = ["1", "2", "7", "x", "n", r"\pi", r"\alpha"]
GROUPS = ["12", "x+1", "3n", r"2\pi", r"\sqrt{3}", r"\frac{1}{2}"]
ARGUMENTS = st.sampled_from([*SYMBOLS, *GROUPS])
COMMANDS = {r"\frac": 2, r"\dfrac": 2, r"\binom": 2, r"\sqrt": 1, r"\sqrt[3]": 1}


def short(command, arguments, gaps):
    """Write a command in TeX without needless braces, and with a blank where TeX needs or drops one."""
    text = command
    for argument, gap in zip(arguments, gaps, strict=False):
        is_bare = argument in SYMBOLS or argument[0] == "\\"
        needs_gap = re.search(r"\\[A-Za-z]+$", text) and argument[0].isalpha() and is_bare
        text += (" " if gap or needs_gap else "") + (argument if is_bare else f"{{{argument}}}")
    return text


def braced(command, arguments):
    return command + "".join(f"{{{argument}}}" for argument in arguments)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([*COMMANDS]),
    st.lists(ARGUMENTS, min_size=2, max_size=2),
    st.lists(ARGUMENTS, min_size=2, max_size=2),
    st.lists(st.booleans(), min_size=2, max_size=2),
    st.sampled_from(["", "r", "+1", r"\pi", "5"]),
)
def test_an_argument_of_tex_needs_no_braces(command, arguments, others, gaps, rest):
    count = COMMANDS[command]
    arguments, others = arguments[:count], others[:count]
    # A letter would belong to the name of a command before it.
    rest = f"{{{rest}}}" if rest == "r" else rest
    answer = short(command, arguments, gaps) + rest
    assert judge(answer, rf"{braced(command, arguments)}{rest}").correct
    verdict = judge(answer, rf"{braced(command, others)}{rest}").correct
    assert verdict is judge(braced(command, arguments) + rest, braced(command, others) + rest).correct


@pytest.mark.parametrize(
    ("answer", "gold", "is_correct"),
    [
        # Arguments without braces.
        (r"\frac\pi4", r"\frac{\pi}{4}", True),
        (r"\frac\pi4", r"\frac{\pi}{14}", False),
        (r"\frac\pi12", r"\frac{\pi}{12}", False),
        (r"\frac\pi{12}", r"\frac{\pi}{12}", True),
        (r"\dfrac\pi2", r"\frac{\pi}{2}", True),
        (r"\frac1\pi", r"\frac{1}{\pi}", True),
        (r"\frac1\pi", r"\pi", False),
        (r"\frac{2}\pi", r"\frac{2}{\pi}", True),
        (r"\frac\sqrt32", r"\frac{\sqrt{3}}{2}", True),
        (r"\frac\sqrt32", r"\sqrt{\frac{3}{2}}", False),
        (r"\frac1{\sqrt2}", r"\frac{\sqrt2}{2}", True),
        (r"\sqrt\pi", r"\sqrt{\pi}", True),
        (r"\sqrt\pi r", r"\sqrt{\pi r}", False),
        (r"\frac123", r"\frac{1}{23}", False),
        (r"\frac123", r"\frac{3}{2}", True),
        (r"2^\frac12", r"\sqrt{2}", True),
        (r"\sin\frac\pi6", r"\frac12", True),
        (r"\left(\frac\pi4,\frac\pi2\right)", r"(\frac{\pi}{4},\frac{\pi}{2})", True),
        # A group after a digit or a blank keeps its braces.
        (r"\frac1{x+1}", r"\frac{1}{x+1}", True),
        (r"\frac1{x+1}", r"\frac{1}{x}+1", False),
        (r"\sqrt {x+1}", r"\sqrt{x+1}", True),
        (r"\sqrt {x+1}", r"\sqrt{x}+1", False),
        (r"\frac {x+1} {2}", r"\frac{x+1}{2}", True),
        (r"\binom {n+1}2", r"\frac{n(n+1)}{2}", True),
        (r"2^ {10}", "1024", True),
        # Letters with a unit.
        (r"\pi\text{ cm}^2", r"\pi", True),
        (r"\pi\text{ cm}^2", r"2\pi", False),
        (r"\pi\text{ cm}^2", r"\pi\text{ cm}", False),
        (r"\pi\text{ cm}", r"10\pi\text{ mm}", True),
        (r"\pi", r"\pi\text{ square units}", True),
        (r"\pi\ \mathrm{rad}", r"\pi", True),
        (r"-\pi\text{ cm}", r"-\pi", True),
        (r"-\pi\text{ cm}", r"\pi", False),
        (r"r\pi\text{ cm}", r"r\pi", True),
        (r"r\pi\text{ cm}", r"\pi", False),
        (r"ab\text{ cm}^2", "ab", True),
        (r"xy\text{ plane}", "xy", False),
        (r"n!\text{ ways}", "n!", True),
        (r"n!\text{ ways}", "n", False),
        (r"(a+b)\text{ cm}", "a+b", True),
        (r"|x|\text{ m}", "|x|", True),
        (r"\pi\text{ or }2", r"\pi", False),
        (r"\pi\text{ squared}", r"\pi", False),
        (r"\pi\text{ times }2", r"\pi", False),
        (r"\alpha\text{ and }\beta", r"\alpha", False),
        (r"\alpha\text{ cross }\beta", r"\alpha", False),
        (r"(A+B)\text{ transposed}", "A+B", False),
        (r"x'", "x", False),
        (r"5\text{ pi}", "5", False),
        # Counts.
        (r"5\text{ times}", "5", True),
        (r"5\text{ times}", "6", False),
        (r"5\text{ times }3", "5", False),
        (r"5\text{ times }n", "5", False),
        (r"5\text{ times two}", "5", False),
        (r"5\text{ more}", "5", True),
        (r"5\text{ more apples}", "5", True),
        (r"5\text{ more}", r"5\text{ times}", False),
        (r"5\text{ more than }3", "5", False),
        (r"5\text{ more than three}", "5", False),
        (r"5\text{ or more}", "5", False),
        (r"5\text{ more or less}", "5", False),
        (r"3\text{ real solutions}", "3", True),
        (r"3\text{ real solutions}", "2", False),
        (r"3\text{ distinct real roots}", r"3\text{ roots}", True),
        (r"2\text{ real roots}", r"2\text{ complex roots}", False),
        (r"2\text{ real roots, }3\text{ complex roots}", r"3\text{ real roots, }2\text{ complex roots}", False),
        (r"12\text{ ordered pairs}", "12", True),
        (r"5\text{ even numbers}", r"5\text{ odd numbers}", False),
        *((rf"5\text{{ {word}}}", "5", False) for word in ("real", "negative", "root", "square root", "fewer")),
        # A K that may be a thousand.
        *((text, "5", False) for text in (r"5\text{K}", r"\$5\text{K}", r"\$5\text{ K}", r"\$5\,\mathrm{K}")),
        *((text, "5", False) for text in (r"5\text{K dollars}", r"\text{5K people}", r"5\text{ K people}")),
        *((text, "5", False) for text in (r"\$5\text{m}", r"\$5\text{T}", r"\$5\text{MM}", r"\text{€}5\text{K}")),
        ("5", r"\$5\text{K}", False),
        (r"\$5\text{K}", r"\$5\text{K}", True),
        (r"300\text{ K}", "300", True),
        (r"300\,\mathrm{K}", r"300\text{ K}", True),
        (r"12\text{ cents per kilowatt hour}", r"12\text{ cents per kilowatt hour}", True),
    ],
)
def test_notations_of_completions(answer, gold, is_correct):
    assert judge(answer, gold).correct is is_correct


@pytest.mark.parametrize("gold", [r"3\text{ real solutions}", r"n!\text{ ways}", r"\pi\text{ cm}^2", r"\frac\pi4"])
def test_such_a_gold_answer_can_be_scored(gold):
    assert find_fault(gold) is None


def test_the_vote_of_a_large_number_is_its_value():
    names = {judge(answer, "1").vote for answer in (r"2^{65536}", r"4^{32768}", r"2 \cdot 2^{65535}")}
    assert len(names) == 1 and judge(r"2^{65537}", "1").vote not in names


@pytest.mark.parametrize("gold", ["2023^{2023}", "10^{5000}", "1e4400", "10^{2015}", r"\sqrt[3]{-8}"])
def test_a_large_gold_answer_can_be_scored(gold):
    assert find_fault(gold) is None
