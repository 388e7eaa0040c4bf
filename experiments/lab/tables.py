"""Makes the Markdown tables of the pages."""

from collections.abc import Iterable, Sequence
from typing import Any


def markdown_table(head: Sequence[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a Markdown table without a final line break."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, *rows)]
    lines.insert(1, "|---" * len(head) + "|")
    return "\n".join(lines)
