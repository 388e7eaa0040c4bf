"""Pages with wide tables give their own contents' column to them: at 1280 pixels no table is cut off."""

from typing import Any

WIDE = tuple(f"{name}.md" for name in ("methods", "metrics", "settings", "scaling", "recipes"))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Hide the table of contents beside a wide page."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = [*page.meta.get("hide", []), "toc"]
    return markdown
