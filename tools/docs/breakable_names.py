"""Lets long names in tables break after a dot, slash, double colon or underscore, so that all columns stay visible."""

import re
from typing import Any

LONGEST = 25
CELL = re.compile(r"<td[ >].*?</td>", re.DOTALL)
BREAK = re.compile(r"(::|[./_])")
CODE = re.compile(r"<code>([^<]*)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Mark the places where the names in the tables of a page may break."""
    return CELL.sub(lambda cell: CODE.sub(_breakable, cell[0]), html)


def _breakable(match: re.Match[str]) -> str:
    return match[0] if len(match[1]) <= LONGEST else "<code>" + BREAK.sub(r"\1<wbr>", match[1]) + "</code>"
