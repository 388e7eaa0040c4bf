"""Makes every picture a link to itself, so that it can be opened at full size on a phone."""

import re
from typing import Any

PICTURE = re.compile(r'<img [^>]*src="(?P<file>[^"]+)"[^>]*>')


def on_page_content(html: str, **_: Any) -> str:
    """Wrap each picture of a page in a link."""
    return PICTURE.sub(lambda match: f'<a href="{match["file"]}">{match[0]}</a>', html)
