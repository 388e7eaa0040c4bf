"""`steer_trl.functional.entropy_change` in a page is a link to the API reference if that has it, else plain code."""

import re
from typing import Any

NAME = re.compile(r"`(steer_trl(?:\.\w+)+)`")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Mark the names; the plugin autorefs makes links of those it knows."""
    return NAME.sub(r'<autoref optional identifier="\1"><code>\1</code></autoref>', markdown)
