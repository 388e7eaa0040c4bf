"""What is wrong with the built site: dead links and anchors, addresses that are none, things loaded from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from mkdocs.exceptions import Abort

REMOTE_IN_CSS = re.compile(r"url\(\s*['\"]?(?:https?:)?//")


class Page(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        addresses = [values[name] for name in ("href", "src") if name in values]
        (self.links if tag == "a" else self.loads).extend(addresses)


def complaints(site: Path) -> list[str]:
    """One line for each thing that is wrong."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute: it is shown under any address
            continue
        for address in page.links + page.loads:
            parts = urlparse(address)
            if parts.scheme in ("http", "https", "mailto"):
                if address in page.loads:
                    found.append(f"{path.name} loads {address}: keep a copy, or do without.")
                elif parts.scheme != "https" or "." not in parts.netloc or " " in address:
                    found.append(f"{path.name} links to {address!r}, which is no https address.")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{path.name} links to {address}, which is not there.")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{path.name} links to {address}, which has no such anchor.")
    sheets = [path for path in site.rglob("*.css") if REMOTE_IN_CSS.search(path.read_text())]
    return found + [f"{path.name} loads something from another host." for path in sheets]


def on_post_build(config: Any, **_: Any) -> None:
    """End the build where anything is wrong."""
    found = complaints(Path(config["site_dir"]).resolve())
    if found:
        raise Abort("\n".join(found))
