"""Checks that the site loads nothing from another host, so that it can be read offline. mkdocs checks the links."""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import Abort

REMOTE = r"""\s*["']?(?:https?:)?//"""
LOADED = re.compile(rf"<(?!a\s)\w+\s[^>]*?\b(?:src|href)={REMOTE}|\burl\({REMOTE}|@import{REMOTE}", re.IGNORECASE)


def on_post_build(config: Any, **_: Any) -> None:
    """End the build with an error if a page or a style sheet loads something from another host."""
    pages = [path for path in Path(config["site_dir"]).rglob("*") if path.suffix in (".html", ".css")]
    found = [path.name for path in pages if LOADED.search(path.read_text())]
    if found:
        raise Abort(f"{', '.join(found)}: something is loaded from another host. Keep a copy, or do without.")
