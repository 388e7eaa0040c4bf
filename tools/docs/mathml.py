"""Formulas in MathML, made when the site is built: browsers draw it themselves, with no script.

`$...$` and `$$...$$` are what GitHub reads, too. The extension arithmatex finds them, here they are turned.
"""

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

FOUND = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Turn every formula of a page."""
    return FOUND.sub(_turned, html)


def _turned(match: re.Match[str]) -> str:
    tag, bracket, formula = match.groups()
    display = "inline" if bracket == "(" else "block"
    drawn = convert(unescape(formula).strip(), display=display)
    drawn = drawn.replace("<mi>ln</mi>", '<mi>ln</mi><mspace width="0.167em"/>')  # as TeX sets a function's name
    return f'<{tag} class="formula">{drawn}</{tag}>'
