r"""Normalizes the layout of answers: signs, spaces, fonts, delimiters, and words in `\text`.

In the result, a space that LaTeX prints is `~`, a space that LaTeX drops is a blank, and each word is in «», as
in `4~«million»`.
The rules are in `notation.yaml`. They delete only layout without meaning, such as weight, size, colour and alignment.
"""

import re
import unicodedata
from importlib.resources import files
from typing import Any

import yaml

from steer_trl.rewards.answers import until_closed

TABLE: dict[str, Any] = yaml.safe_load(files("steer_trl.rewards").joinpath("notation.yaml").read_text("utf-8"))
NUMBER_WORDS = {*TABLE["numbers"], *TABLE["scales"], *TABLE["parts"]}
SEPARATORS = {"and", "or"}
# The number of arguments of each command whose arguments may lack braces.
ARGUMENTS: dict[str, int] = TABLE["commands"]["arguments"]
LETTERS = "|".join(TABLE["commands"]["letters"].split())
# Characters. A longer answer is only compared as a string. The time to read one grows with the square of its length.
LONGEST = 1_000


def compiled(rules: list[list[str]]) -> list[tuple[re.Pattern[str], str]]:
    """Return the rules of a table with compiled patterns."""
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


def rewrite(text: str, rules: list[tuple[re.Pattern[str], str]]) -> str:
    """Apply the rules to a text one after the other."""
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


_layout = compiled(TABLE["layout"])
_words = compiled(TABLE["words"])
# Such a command, with the index of its root.
_command = rf"\\(?P<name>{'|'.join(ARGUMENTS)})(?![A-Za-z])(?:[ ~]*\[[^\][]*\])?"
# The argument of a raised or lowered sign only needs braces if it is a command, and only loses blanks before a group.
_before_arguments = re.compile(rf"{_command}|[\^_](?=[ ~]++\{{|[ ~]*\\(?:{'|'.join(ARGUMENTS)})(?![A-Za-z]))")
_argument = re.compile(rf"[ ~]*(?P<argument>(?P<brace>\{{)|{_command}|[A-Za-z\d]|\\(?:{LETTERS})(?![A-Za-z]))")
_raised_or_lowered = re.compile("(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+)|[₀₁₂₃₄₅₆₇₈₉₊₋]+")
_text = re.compile(r"\\(?:text|unit)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_group = re.compile(r"(?<![A-Za-z\]}^_\\])\{([^{}]*)\}")
_word = re.compile(r"(?<![A-Za-z\\«])\\?[A-Za-z]+(?:['-][A-Za-z]+)*")
_bare_word = re.compile(r"(?<![\\A-Za-z«_^{'])[A-Za-z]{2,}(?:-[A-Za-z]{2,})*(?![A-Za-z»}{(_'])")


def normalize_layout(answer: str) -> str:
    """Return an answer, given without its box, in the notation that the functions of this folder read."""
    text = answer.strip()
    if len(text) > LONGEST:
        return text
    if not text.isascii():
        text = _spell_signs(text)
    if text.isalnum():
        return _mark_word(text) if text.isalpha() else text
    if r"\begin" not in text:
        # Some data sets double backslashes.
        text = re.sub(r"\\\\(?=[A-Za-z])", r"\\", text)
    text = rewrite(text, _layout)
    text = brace_arguments(_text.sub(lambda match: _mark_text(match[1]), text))
    if "matrix" not in text and "cases" not in text:
        text = re.sub(r"\\\\(\[[^\]]*\])?", ", ", text).replace("&", "")
    while (without := _group.sub(r"\1", text)) != text:
        text = without
    text = rewrite(_bare_word.sub(lambda match: _mark_word(match[0]), text), _words)
    is_one_group = text.startswith("{") and until_closed(text, 1) == text[1:-1]
    return text[1:-1].strip(" ~") if is_one_group else text


def brace_arguments(text: str) -> str:
    r"""Put the arguments of fractions, binomial coefficients and roots in braces, and remove the blanks before them.

    As in TeX, an argument is a group, a digit, a letter or a command, so `\frac\pi4` becomes `\frac{\pi}{4}`. Here a
    command has its own arguments with it, so `\frac\sqrt32` becomes `\frac{\sqrt{3}}{2}`.
    """
    # From the right, because an argument may be a command whose own arguments lack braces.
    for command in reversed(list(_before_arguments.finditer(text))):
        found = _find_arguments(text, command.end(), ARGUMENTS.get(command["name"], 1))
        if found is not None:
            arguments, end = found
            braced = [argument if argument[0] == "{" else f"{{{argument}}}" for argument in arguments]
            text = text[: command.end()] + "".join(braced) + text[end:]
    return text


def _find_arguments(text: str, start: int, count: int) -> tuple[list[str], int] | None:
    """Return the `count` arguments behind `start`, and where the last one ends; `None` if there are fewer."""
    arguments: list[str] = []
    end = start
    for _ in range(count):
        match = _argument.match(text, end)
        if match is None:
            return None
        if match["brace"]:
            inside = until_closed(text, match.end())
            if inside is None:
                return None
            end = match.end() + len(inside) + 1
        else:
            own = _find_arguments(text, match.end(), ARGUMENTS.get(match["name"], 0))
            if own is None:
                return None
            end = own[1]
        arguments.append(text[match.start("argument") : end])
    return arguments, end


def _spell_signs(text: str) -> str:
    text = _raised_or_lowered.sub(_spell_index, text)
    return "".join(sign if sign.isascii() else _spell_sign(sign) for sign in text)


def _spell_index(match: re.Match[str]) -> str:
    return f"{'^' if match['raised'] else '_'}{{{unicodedata.normalize('NFKC', match[0])}}}"


def _spell_sign(sign: str) -> str:
    if sign in TABLE["signs"]:
        return TABLE["signs"][sign]
    # This category has the invisible characters.
    if unicodedata.category(sign) == "Cf":
        return ""
    if (digit := unicodedata.digit(sign, None)) is not None:
        return str(digit)
    name = unicodedata.name(sign, "").split()
    if name[:1] == ["GREEK"] and name[2:3] == ["LETTER"] and len(name) == 4:
        letter = name[3].lower()
        return f"\\{letter if name[1] == 'SMALL' else letter.capitalize()} "
    plain = unicodedata.normalize("NFKC", sign)
    if fraction := re.fullmatch("(\\d+)\u2044(\\d+)", plain):
        return rf"\frac{{{fraction[1]}}}{{{fraction[2]}}}"
    return plain


def _mark_text(text: str) -> str:
    """Put the words of a `\\text{}` in «», and leave its numbers and signs unmarked."""
    marked = _word.sub(lambda match: match[0] if match[0][0] == "\\" and len(match[0]) < 4 else _mark(match[0]), text)
    return "~" + re.sub(r"\s+", "~", marked.strip(" ")) + "~"


def _mark(word: str) -> str:
    return f"«{word.removeprefix(chr(92))}»"


def _mark_word(word: str) -> str:
    """Put a word outside a `\\text{}` in «» if it cannot be a product of letters."""
    lower = word.lower()
    is_known = lower in SEPARATORS or set(lower.split("-")) <= NUMBER_WORDS
    looks_like_one = len(word) > 3 and re.search("[aeiouy]", lower) and list(lower) != sorted(lower)
    return _mark(word) if is_known or looks_like_one else word
