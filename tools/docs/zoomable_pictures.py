"""Every picture is a link to itself, so that a phone, which shows it as wide as its screen, can show it whole."""

import re
from typing import Any

PICTURE = re.compile(r'<img [^>]*src="(?P<file>[^"]+)"[^>]*>')


def on_page_content(html: str, **_: Any) -> str:
    """Wrap the pictures of a page."""
    return PICTURE.sub(lambda match: f'<a href="{match["file"]}">{match[0]}</a>', html)
