"""Formulas that agree on a large part of the numbers are still told apart, and equal ones are still equal."""

from hypothesis import given, settings
from hypothesis import strategies as st

from steer_trl.rewards.judge import judge

FEW = settings(max_examples=15, deadline=None)
GAPS = [r"\cdot ", r"\times ", r"\,", r"\ ", " ", r"\quad ", "~"]


def is_equal(answer, gold):
    return judge(answer, gold).correct


@FEW
@given(st.integers(-2000, 2000))
def test_absolute_values_far_from_zero(place):
    inside = f"x-({place})"
    assert is_equal(rf"\sqrt{{({inside})^2}}", f"|{inside}|")
    assert is_equal(f"|{place}-x|", f"|{inside}|")
    for answer in (inside, f"{place}-x"):
        assert not is_equal(answer, f"|{inside}|")
        assert not is_equal(answer, rf"\sqrt{{({inside})^2}}")


@FEW
@given(st.integers(1, 500))
def test_roots_of_squares_that_are_written_out(place):
    square = rf"\sqrt{{x^2-{2 * place}x+{place * place}}}"
    assert is_equal(f"|x-{place}|", square)
    assert not is_equal(f"{place}-x", square)
    assert not is_equal(f"x-{place}", square)


@FEW
@given(st.integers(-500, 500))
def test_the_larger_of_two(place):
    assert is_equal(rf"\frac{{x+({place})+|x-({place})|}}{{2}}", rf"\max(x,{place})")
    assert is_equal(rf"x+({place})-\max(x,{place})", rf"\min(x,{place})")
    for answer in ("x", str(place), rf"\min(x,{place})"):
        assert not is_equal(answer, rf"\max(x,{place})")


@FEW
@given(st.integers(2, 3000), st.data())
def test_rounded_quotients_of_whole_numbers(period, data):
    shift = data.draw(st.integers(1, period - 1))
    gold = rf"\lfloor \frac{{n}}{{{period}}} \rfloor"
    assert is_equal(rf"\lceil \frac{{n-{period - 1}}}{{{period}}} \rceil", gold)
    assert is_equal(rf"\lfloor \frac{{n+{period}}}{{{period}}} \rfloor - 1", gold)
    assert not is_equal(rf"\lfloor \frac{{n+{shift}}}{{{period}}} \rfloor", gold)
    assert not is_equal(rf"\lfloor \frac{{n}}{{{period + 1}}} \rfloor", gold)
    assert not is_equal("0", gold)


@FEW
@given(st.integers(1, 99))
def test_rounded_real_numbers(term):
    assert is_equal(rf"\lfloor x+{term} \rfloor", rf"\lfloor x \rfloor + {term}")
    assert is_equal(rf"-\lceil -x \rceil + {term}", rf"\lfloor x \rfloor + {term}")
    for answer in (f"x+{term}", rf"\lceil x \rceil + {term}", rf"\lceil x \rceil + {term - 1}"):
        assert not is_equal(answer, rf"\lfloor x \rfloor + {term}")


@FEW
@given(st.integers(2, 50))
def test_binomial_coefficients_that_are_zero_at_first(count):
    gold = rf"\binom{{n}}{{{count}}}"
    assert is_equal(rf"\binom{{n}}{{n-{count}}}", gold)
    for answer in (rf"\binom{{n}}{{{count + 1}}}", rf"\binom{{n+1}}{{{count}}}", "0"):
        assert not is_equal(answer, gold)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 999), st.integers(1, 99), st.sampled_from(GAPS), st.sampled_from(["x", "^n", "^{n-1}", r"\pi"]))
def test_two_numbers_are_not_joined(first, second, gap, rest):
    assert not is_equal(f"{first}{gap}{second}{rest}", f"{first}{second}{rest}")
    assert not is_equal(f"x{first}{gap}{second}", f"x{first}{second}")
    product = rf"{first}\cdot {second}{rest}"
    assert is_equal(product, rf"{first} \times {second}{rest}")


@FEW
@given(st.sampled_from(["sin", "cos", "ln", "tan"]))
def test_a_dot_ends_the_argument_of_a_function(name):
    assert is_equal(rf"\{name} x \cdot y", rf"y \{name} x")
    assert not is_equal(rf"\{name} x \cdot y", rf"\{name} xy")
