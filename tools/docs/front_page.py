"""Makes README the front page of the site. Links to files outside the documentation become plain text."""

import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return README instead of `index.md`."""
    if page.file.src_uri != "index.md":
        return markdown
    return LINK.sub(_as_on_the_site, README.read_text()).replace("](docs/", "](")


def _as_on_the_site(link: re.Match[str]) -> str:
    return link[0] if link[2].startswith(("docs/", "#")) else link[1]
