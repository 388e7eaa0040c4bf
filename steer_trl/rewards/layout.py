r"""Normalizes the layout of answers: signs, spaces, fonts, delimiters, and words in `\text`.

In the result, a space that LaTeX prints is `~`, a space that LaTeX drops is a blank, and each word is in «»:
`4~«million»`.
The rules are in `notation.yaml`. They delete only layout without meaning: weight, size, colour, alignment.
"""

import re
import unicodedata
from importlib.resources import files
from typing import Any

import yaml

TABLE: dict[str, Any] = yaml.safe_load(files("steer_trl.rewards").joinpath("notation.yaml").read_text("utf-8"))
NUMBER_WORDS = {*TABLE["numbers"], *TABLE["scales"], *TABLE["parts"]}
SEPARATORS = {"and", "or"}
LONGEST = 4_000  # characters; a longer answer is compared as plain text only

_layout = [(re.compile(pattern), replacement) for pattern, replacement in TABLE["layout"]]
_words = [(re.compile(pattern), replacement) for pattern, replacement in TABLE["words"]]
_raised = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_lowered = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋]+")
_text = re.compile(r"\\(?:text|unit)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_group = re.compile(r"(?<![A-Za-z\]}^_\\])\{([^{}]*)\}")
_word = re.compile(r"(?<![A-Za-z\\«])\\?[A-Za-z]+(?:['-][A-Za-z]+)*")
_bare_word = re.compile(r"(?<![\\A-Za-z«_^{'])[A-Za-z]{2,}(?:-[A-Za-z]{2,})*(?![A-Za-z»}{(_^'])")


def normalize_layout(answer: str) -> str:
    """Return an answer, given without its box, in the spelling that the functions of this folder read."""
    text = answer.strip()
    if len(text) > LONGEST:
        return text
    if not text.isascii():
        text = _spell_signs(text)
    if text.isalnum():
        return _mark_word(text) if text.isalpha() else text
    if r"\begin" not in text:
        text = re.sub(r"\\\\(?=[A-Za-z])", r"\\", text)  # a data set has doubled its backslashes
    for pattern, replacement in _layout:
        text = pattern.sub(replacement, text)
    text = _text.sub(lambda match: _mark_text(match[1]), text)
    if "matrix" not in text and "cases" not in text:
        text = re.sub(r"\\\\(\[[^\]]*\])?", ", ", text).replace("&", "")
    while (without := _group.sub(r"\1", text)) != text:
        text = without
    text = _bare_word.sub(lambda match: _mark_word(match[0]), text)
    for pattern, replacement in _words:
        text = pattern.sub(replacement, text)
    text = re.sub(r"[ ~]*~[ ~]*", "~", text)
    text = re.sub(r"[ ~]+(?=[\^}_])|(?<=[{(])[ ~]+|(?<=[A-Za-z]{2}»)\.", "", text)
    text = re.sub(r"^[\s~=,;:]+|[\s~.,;:]+$", "", text)
    return text[1:-1].strip(" ~") if _is_one_group(text) else text


def _is_one_group(text: str) -> bool:
    depth = 0
    for position, brace in ((match.start(), match[0]) for match in re.finditer(r"\\.|[{}]", text)):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth == 0:
            return position == len(text) - 1 and text[0] == "{"
    return False


def _spell_signs(text: str) -> str:
    text = _raised.sub(lambda match: "^{" + unicodedata.normalize("NFKC", match[0]).replace("\u2212", "-") + "}", text)
    text = _lowered.sub(
        lambda match: "_{" + unicodedata.normalize("NFKC", match[0]).replace("\u2212", "-") + "}", text
    )
    return "".join(sign if sign.isascii() else _spell_sign(sign) for sign in text)


def _spell_sign(sign: str) -> str:
    if sign in TABLE["signs"]:
        return TABLE["signs"][sign]
    if unicodedata.category(sign) == "Cf":  # invisible
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
    text = re.sub(r"(?<![A-Za-z])((?:[A-Za-z]\.){2,})", lambda match: match[0].replace(".", ""), text.strip(" ") + "")
    marked = _word.sub(lambda match: match[0] if match[0][0] == "\\" and len(match[0]) < 4 else _mark(match[0]), text)
    return "~" + re.sub(r"\s+", "~", marked) + "~"


def _mark(word: str) -> str:
    return f"«{word.removeprefix(chr(92))}»"


def _mark_word(word: str) -> str:
    """Put a word outside a `\\text{}` in «» if it cannot be a product of letters."""
    lower = word.lower()
    is_known = lower in SEPARATORS or set(lower.split("-")) <= NUMBER_WORDS
    looks_like_one = len(word) > 3 and re.search("[aeiouy]", lower) and list(lower) != sorted(lower)
    return _mark(word) if is_known or looks_like_one else word
