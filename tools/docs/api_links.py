"""Links names such as `steer_trl.functional.entropy_change` to the API reference, if they are in it."""

import re
from typing import Any

NAME = re.compile(r"`(steer_trl(?:\.\w+)+)`")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Mark the names as references. The plugin autorefs turns the ones it knows into links."""
    return NAME.sub(r'<autoref optional identifier="\1"><code>\1</code></autoref>', markdown)
