"""No completion makes a pattern work for long: the steps of a matcher that counts them grow with the text's length.

Answers are found, and data sets are read, in the training process itself, so these patterns must be linear. An answer
is read in a worker that has a deadline, and has at most `LONGEST` characters, so those patterns may be quadratic at
most, and few enough steps remain at that length.
"""

import re
import sys

import pytest
from support.patterns import find_patterns, write_hard_texts
from support.steps import Counter, count_steps

from steer_trl.data import instructions, lengths, loader, raw_rows, schemas, sources, templates
from steer_trl.rewards import answers, formulas, golds, judge, normalization, numerals, points, units
from steer_trl.rewards import reading as answer_reading
from steer_trl.rewards.normalization import LONGEST, TABLE, compiled
from steer_trl.rewards.numerals import NOTATIONS

IN_TRAINING = [answers, instructions, lengths, loader, raw_rows, schemas, sources, templates]
IN_WORKERS = [answer_reading, formulas, golds, judge, normalization, numerals, points, units]
RULES = [*TABLE["layout"], *TABLE["words"], *TABLE["formulas"], *TABLE["units"]["rules"]]
LENGTHS = (25, 50, 100)
# Steps that do not depend on the length of a text.
START = 60
# `re` takes about 1e8 steps a second.
MOST_STEPS = 2e7


@pytest.fixture(autouse=True)
def deep_recursion():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


def count_all(pattern, is_full):
    """Return each hard text at all lengths, with the steps that it takes."""
    return [
        (texts, [count_steps(pattern, text, is_full) for text in texts])
        for texts in write_hard_texts(pattern, LENGTHS)
    ]


def find_growth(counts):
    """Return the largest factor by which the steps grow from a text to one of twice its length, twice in a row."""
    factors = []
    for texts, steps in counts:
        # A unit that is longer than a text is written once.
        both = [
            2 * long / (short + START) / (len(longer) / len(shorter))
            for short, long, shorter, longer in zip(steps, steps[1:], texts, texts[1:], strict=False)
        ]
        # A text that begins to match, or no longer does, takes a step only once.
        factors.append(min(both))
    return max(factors)


FOUND = [pair for module in IN_TRAINING for pair in find_patterns(module)]
OF_WORKERS = [pair for module in IN_WORKERS for pair in find_patterns(module)]
OF_WORKERS += [(pattern, True) for pattern in NOTATIONS] + [(pattern, False) for pattern, _ in compiled(RULES)]


@pytest.mark.parametrize(("pattern", "is_full"), FOUND, ids=lambda one: getattr(one, "pattern", one))
def test_patterns_in_the_training_process_are_linear(pattern, is_full):
    assert find_growth(count_all(pattern, is_full)) < 2.5


@pytest.mark.parametrize(("pattern", "is_full"), OF_WORKERS, ids=lambda one: getattr(one, "pattern", one))
def test_patterns_in_workers_are_quadratic_at_most(pattern, is_full):
    counts = count_all(pattern, is_full)
    assert find_growth(counts) < 5
    # The steps of a quadratic pattern at the length of the longest answer that is read.
    assert max(steps[-1] * (LONGEST / len(texts[-1])) ** 2 for texts, steps in counts) < MOST_STEPS


@pytest.mark.parametrize(
    ("text", "least"), [(r"answer\s*:\s*(\\\[(?:(?!\\\]).)*\\\]|[^\n]*)", 2.5), (r"(a|aa)+$", 5), (r"(x+x+)+y", 5)]
)
def test_the_growth_of_slow_patterns_is_seen(text, least):
    pattern = re.compile(text, re.DOTALL | re.IGNORECASE)
    unit = "Answer: \\[ x\n" if "answer" in text else "a" if "a" in text else "x"
    steps = [count_steps(pattern, unit * count + "b") for count in (6, 12)]
    assert steps[1] / steps[0] > least


@pytest.mark.parametrize("module", [answers, numerals])
def test_the_counting_matcher_agrees_with_python(module):
    for pattern, is_full in find_patterns(module):
        for text, *_ in write_hard_texts(pattern, LENGTHS):
            if is_full:
                assert Counter(pattern).full(text) is (pattern.fullmatch(text) is not None)
            else:
                spans = [match.span() for match in pattern.finditer(text)]
                found = Counter(pattern).scan(text)
                # Python may find nothing right behind a match.
                assert [span for span in found if span[0] < span[1]] == [span for span in spans if span[0] < span[1]]


class Counted:
    """A compiled pattern of which a module uses `search` and `match`, with the steps that they took."""

    def __init__(self, pattern, steps):
        self.pattern, self.steps = pattern, steps

    def __getattr__(self, use):
        def find(text, start=0):
            found = getattr(self.pattern, use)(text, start)
            # `search` reads up to its match, and everything if there is none. `match` reads what it tried.
            part = text[start : found.end()] if found and use == "search" else text[start:]
            counter = Counter(self.pattern)
            counter.text = part
            if use == "search":
                counter.scan(part)
            else:
                counter._first(list(counter.tree), 0)
            self.steps.append(counter.steps)
            return found

        return find


@pytest.mark.parametrize(
    "unit", ["Answer: \\[ x\n", "Answer: $$ x\n", "Answer: ", "Answer: \\[ x \\]\n", "answer", "Answer: $$x$$ \\[\n"]
)
def test_the_answer_line_is_found_in_linear_time(unit, monkeypatch):
    steps = []
    for name in ("ANSWER", "LINE", "DISPLAY"):
        monkeypatch.setattr(answers, name, Counted(getattr(answers, name), steps))
    totals = []
    for count in (8, 16):
        steps.clear()
        answers.answer_line(unit * count)
        totals.append(sum(steps))
    assert totals[1] < 2.5 * totals[0] + START
