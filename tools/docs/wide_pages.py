"""Hides the table of contents of pages with wide tables, so that no table is cut off at 1280 pixels."""

from typing import Any

WIDE = tuple(f"{name}.md" for name in ("methods", "healthy", "settings", "recipes"))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Hide the table of contents if the page is wide."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = [*page.meta.get("hide", []), "toc"]
    return markdown
