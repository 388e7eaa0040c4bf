"""Converts formulas to MathML when the site is built. Browsers draw MathML without a script.

Formulas are written as `$...$` and `$$...$$`, which GitHub also reads. The extension arithmatex finds them.
"""

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

FOUND = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Convert every formula of a page."""
    return FOUND.sub(_turned, html)


def _turned(match: re.Match[str]) -> str:
    tag, bracket, formula = match.groups()
    display = "inline" if bracket == "(" else "block"
    drawn = convert(unescape(formula).strip(), display=display)
    drawn = drawn.replace("<mi>ln</mi>", '<mi>ln</mi><mspace width="0.167em"/>')  # TeX's space after ln
    return f'<{tag} class="formula">{drawn}</{tag}>'
