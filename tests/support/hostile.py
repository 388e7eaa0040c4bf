r"""Answers that have broken reward functions, and those that a policy could think of: (completion, gold, verdict).

A verdict of `None` means that either is fine, as long as there is one.
"""

import random

SMALL_SPACES = (r"\,", r"\:", r"\;", r"\!", r"\ ", r"\thinspace ", r"{\,}", "~", " ", "\u2009", "\u202f")


def _towers():
    """Nested powers and factorials: small to write, larger than the universe to compute."""
    towers = [r"5^{5^{5^{5^5}}}", r"2^{2^{2^{2^{2^2}}}}", r"(10^{10})^{10^{10}}", "34!!!", r"100000000!"]
    towers += [r"\frac{7^{7^{7^7}}}{7}"]
    towers += [r"\sum_{i=1}^{10^{12}} \frac{1}{i}", r"\binom{10^{9}}{5\cdot 10^{8}}", r"\int_0^1 x^{x^{x^{x^x}}} dx"]
    return [(rf"\boxed{{{tower}}}", "34", False) for tower in towers]


def _huge_integers():
    digits = ["9" * n for n in (30, 300, 4_299, 4_301, 20_000)]
    numbers = [*digits, "0." + "3" * 10_000, "-" + "1" * 5_000, "10^{4000}", r"2^{100000}", "1e400", "1E-400", "0x22"]
    return [(rf"\boxed{{{number}}}", "34", False) for number in numbers]


def _boxes():
    right = (
        r"\boxed{33}\boxed{34}¦\boxed{34} and \boxed{34}¦First $\boxed{33}$. No: $\boxed{34}$.¦\boxed{\boxed{34}}"
        r"¦\boxed{33, \boxed{34}}¦\boxed{{34}}¦\boxed {34}¦\boxed{\gcd(a,b)=34}¦\boxed{\sum_{i=1}^{2} 17 = 34}"
        r"¦\boxed{\int_0^1 f(x)dx=34}¦\boxed{34} is what I put into \boxed¦\\boxed{34}¦$\boxed{34}$¦\[\boxed{34}\]"
        r"¦\boxed{$34$}¦\boxed{\text{34}}¦\boxed{34.}¦$\boxed 34$¦It is \boxed 34.¦\fbox{34}¦\fbox{$34$}¦\framebox{34}"
    )
    wrong = (
        r"\boxed{34}\boxed{33}¦\boxed{34} or \boxed{33} or \boxed{35}¦\boxed{34¦\boxed{34} but then \boxed{3"
        r"¦\boxed{{34}¦\boxed{\{34\}¦\boxed 34 or 33¦\boxed{33|34}¦\boxed{34\text{ (or 33)}}"
        r"¦\boxed{34 \mathrm{ or 33 }}"
        r"¦\boxed{34 \textbf{33}}¦\boxed{34 \mbox{33}}¦\boxed{\text{33}=x=\text{34}}¦\boxed{33\text{ cm}=34}"
        r"¦\boxed{\frac{66}{2}=34}¦\boxed{}¦\boxed{34}\boxed{}¦\boxed{ }¦\fbox{33}¦\framebox{34¦boxed{34}¦34"
        r"¦The answer is 34¦Answer: 34¦#### 34¦<answer>34</answer>"
    )
    long_right = ["\\boxed{\n34\n}", r"\boxed{34}" * 1000, r"\boxed{" * 1000 + "34" + "}" * 1000]
    long_right += ["}" * 1000 + r"\boxed{34}"]
    long_wrong = [r"\boxed{" * 1000, r"\boxed" * 20_000, "", " "]
    cases = (right.split("¦") + long_right, True), (wrong.split("¦") + long_wrong, False)
    return [(completion, "34", verdict) for completions, verdict in cases for completion in completions]


def _several_answers():
    """Two guesses for one, and equations that say what is not so."""
    wrong = (
        "33=34|a=33=34|x=33=34|33=x=34|33==34|?=33=34|=33=34|(33=34)|{33=34}|\\{33=34\\}|[33=34]|33=34=34|1=34|0=34|"
        "33\\equiv 34|33≡34|33\\; =\\; 34|33, 34|34, 33|33; 34|33 \\text{ or } 34|34 \\text{ or } 33|33 and 34|"
        "\\{33,34\\}|(33,34)|[33,34]|33 34|34 33|33\\quad 34|33\\\\34|33 \\to 34|33 \\rightarrow 34|33 \\implies 34|"
        "33 < 34|33 \\le 34|34 > 33|33 \\ne 34|33/34|\\frac{33}{34}|33:34|33 \\lor 34|33 := 34|33 \\sim 34|"
        "34 (or 33)|34?|\\pm 34|34 \\pm 1|34i|34x|x|n|34 + \\epsilon|\\cancel{33} 34|33 \\overset{!}{=} 34|33 & = 34|"
        "\\begin{matrix}33\\\\34\\end{matrix}|\\begin{cases}33\\\\34\\end{cases}|x \\in \\{33, 34\\}|x > 33|\\infty|"
        "\\text{none}|\\text{thirty-three}|XXXIV|34 = |34 \\pmod{100}|\\lfloor 33.9 \\rfloor|33.9999999|34.0000001"
    )
    right = (
        "34|+34|034|34.0|34.000|(34)|\\left(34\\right)|x=34|x = 34|a+b+c=34|f(2)=34|34=34|2^5+2=34|2^5+2|17\\cdot 2|"
        "\\frac{68}{2}|\\dfrac{68}{2}|68/2|\\sqrt{1156}|\\text{34}|\\mathbf{34}|\\mathrm{34}|{34}|\\$34|34\\text{ cm}|"
        "34\\,\\text{apples}|34 \\text{ units}|34^\\circ|-(-34)|3.4 \\times 10^{1}|33+1|\\,34\\,|\\displaystyle 34"
    )
    cases = (wrong, False), (right, True)
    return [(rf"\boxed{{{a}}}", "34", verdict) for answers, verdict in cases for a in answers.split("|")]


def _kinds_of_answers():
    """Fractions, percent, intervals, sets, units, thousands commas and texts, against gold answers of their kind."""
    right = (
        r"\frac12 ¦ \frac{1}{2} ¦¦ 0.5 ¦ \frac{1}{2} ¦¦ 1/2 ¦ \frac{1}{2} ¦¦ \tfrac{2}{4} ¦ \frac{1}{2}"
        r" ¦¦ 0.333333 ¦ \frac{1}{3} ¦¦ 50\% ¦ 50 ¦¦ 50% ¦ 50\% ¦¦ 1,234 ¦ 1234 ¦¦ 1,234,567 ¦ 1234567"
        r" ¦¦ 1\,000\,000 ¦ 1000000 ¦¦ \frac{10\,000}{3} ¦ \frac{10000}{3} ¦¦ 2^3\,5 ¦ 40"
        r" ¦¦ \frac 1 2 ¦ \frac{1}{2} ¦¦ \frac12\,3 ¦ \frac{3}{2} ¦¦ 2\,\text{cm} ¦ 2 ¦¦ x\,y ¦ xy ¦¦ 1,\,2 ¦ 1,2"
        r" ¦¦ 3\,\frac{1}{2} ¦ 3.5 ¦¦ [0,1] ¦ [0,1] ¦¦ (0,1) ¦ (0,1) ¦¦ \left[0,1\right) ¦ [0,1)"
        r" ¦¦ (-\infty, 3] ¦ (-\infty,3] ¦¦ (-\infty,2)\cup(3,\infty) ¦ (-\infty,2)\cup(3,\infty)"
        r" ¦¦ (3,\infty)\cup(-\infty,2) ¦ (-\infty,2)\cup(3,\infty) ¦¦ \{1,2,3\} ¦ \{3,2,1\} ¦¦ 1,2,3 ¦ \{1,2,3\}"
        r" ¦¦ \emptyset ¦ \emptyset ¦¦ (1,2) ¦ (1,2) ¦¦ \left(1,2\right) ¦ (1, 2) ¦¦ x^2+2x+1 ¦ (x+1)^2"
        r" ¦¦ y=2x+1 ¦ 2x+1 ¦¦ y=2x+1 ¦ y=2x+1 ¦¦ y-1=2x ¦ y=2x+1 ¦¦ 2x+1 ¦ y=2x+1 ¦¦ 2\pi ¦ 2\pi"
        r" ¦¦ 5\text{ cm} ¦ 5 ¦¦ 90^\circ ¦ 90 ¦¦ \text{(C)} ¦ \text{(C)} ¦¦ C ¦ \text{C}"
        r" ¦¦ \text{Evelyn} ¦ \text{Evelyn} ¦¦ \begin{pmatrix}1\\2\end{pmatrix} ¦ \begin{pmatrix}1\\2\end{pmatrix}"
        r" ¦¦ 3+2i ¦ 3+2i ¦¦ 10_2 ¦ 10_2 ¦¦ \sqrt{2} ¦ \sqrt{2} ¦¦ 2\sqrt{3} ¦ \sqrt{12} ¦¦ \log_2 8 ¦ 3"
        r" ¦¦ x \ge 3 ¦ x \ge 3 ¦¦ 3 \le x ¦ x \ge 3"
    )
    wrong = (
        r"-\frac{1}{2} ¦ \frac{1}{2} ¦¦ \frac{1}{0} ¦ \frac{1}{2} ¦¦ \frac{0}{0} ¦ 0 ¦¦ \frac{1}{ ¦ \frac{1}{2}"
        r" ¦¦ 0.33 ¦ \frac{1}{3} ¦¦ 5\% ¦ 50\% ¦¦ 12,34 ¦ 1234 ¦¦ 2^3\,5 ¦ 2^{35} ¦¦ [0,1) ¦ [0,1]"
        r" ¦¦ \{1,2\} ¦ \{1,2,3\} ¦¦ \{\} ¦ \{1\} ¦¦ (2,1) ¦ (1,2) ¦¦ x^2+2x ¦ (x+1)^2 ¦¦ \pi ¦ 3.14"
        r" ¦¦ \text{(B)} ¦ \text{(C)} ¦¦ \text{east} ¦ \text{west}"
        r" ¦¦ \begin{pmatrix}2\\1\end{pmatrix} ¦ \begin{pmatrix}1\\2\end{pmatrix} ¦¦ 3-2i ¦ 3+2i"
    )
    pairs = [(*pair.split(" ¦ "), True) for pair in right.split(" ¦¦ ")]
    pairs += [(*pair.split(" ¦ "), False) for pair in wrong.split(" ¦¦ ")]
    pairs += [(f"10{gap}000", "10000", True) for gap in SMALL_SPACES]
    pairs += [(f"33{gap}1", "34", False) for gap in SMALL_SPACES]  # math-verify: 33 and 1
    return [(rf"\boxed{{{answer}}}", gold, verdict) for answer, gold, verdict in pairs]


def _long_texts():
    right = [text * 2**20 + r"\boxed{34}" for text in "a{$"] + [r"\boxed{34}" + "a" * 2**20]
    right += [r"\frac{1}{" * 1000 + r"\boxed{34}"]
    wrong = ["a" * 2**20, r"\boxed{" * 2**17, "\\" * 2**20, "Answer: " * 2**17]
    wrong += [r"\boxed{" + text * 500 + "2" + "}" * 501 for text in (r"\frac{1}{", r"\sqrt{")]
    inside = ["a" * 2**20, "1+" * 2**17 + "1", "=" * 100_000, "33," * 10_000 + "34"]
    wrong += [rf"\boxed{{{text}}}" for text in inside]
    either = [" " * 2**20 + "34", "{" * 2**17 + "34" + "}" * 2**17, "(" * 5_000 + "34" + ")" * 5_000]
    either += ["-" * 5_000 + "34", "34=" * 10_000 + "34"]
    either = [rf"\boxed{{{text}}}" for text in either]
    cases = (right, True), (wrong, False), (either, None)
    return [(completion, "34", verdict) for completions, verdict in cases for completion in completions]


def _signs():
    """Control characters, other scripts, and marks that are not what they look like."""
    odd = ["\0", "\x07", "\x1b[31m", "\r", "\t", "\u200b", "\u202e", "\ufeff", "\ud83d", "😀", "\x7f", "\u2028"]
    inside = [(rf"\boxed{{{sign}34}}", "34", None) for sign in odd]
    before = [(rf"{sign}\boxed{{34}}", "34", True) for sign in odd]
    alone = [(rf"\boxed{{{sign}}}", "34", False) for sign in odd]
    words = "三十四|тридцать четыре|أربعة وثلاثون|٣٤|३४|चौंतीस|τριάντα|三四|34人|$34$元|ⅩⅩⅩⅣ|三十四。|²|½|√2|∞|∅"
    words += "|\uff13\uff14|\u221234|\u201334"  # full-width digits, two dashes for a minus
    return inside + before + alone + [(rf"\boxed{{{word}}}", "34", None) for word in words.split("|")]


def _noise():
    """LaTeX made of dice."""
    dice = random.Random(0)
    pieces = [r"\frac", r"\sqrt", *"{}()^_=,1", "34", "x", r"\left", r"\right", *"&$", r"\\", r"\text{or}"]
    pieces += [r"\{", r"\}", *"%#~", r"\cdot", *"-+!", r"\infty", r"\boxed{", " "]
    return [(rf"\boxed{{{''.join(dice.choices(pieces, k=dice.randint(2, 12)))}}}", "34", None) for _ in range(60)]


SETS = (_towers, _huge_integers, _boxes, _several_answers, _kinds_of_answers, _long_texts, _signs, _noise)
HOSTILE = [case for one in SETS for case in one()]
