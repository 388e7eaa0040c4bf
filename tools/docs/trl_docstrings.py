"""Converts docstrings in TRL's style to Markdown.

`Args:` becomes a heading, its items become a list, and [`~steer_trl.X`] becomes a link. griffe's own styles cannot
read types in backticks or items with several names, and TRL's docstrings have both.
"""

import re
from textwrap import dedent
from typing import Any

from griffe import Extension, Object

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Example):\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)
ITEM = re.compile(r"^(?=\S)([*\w, ]+(?=:| \())?", re.MULTILINE)
REFERENCE = re.compile(r"\[`~?([\w.]+)`\]")


class TrlDocstrings(Extension):
    """Rewrites every docstring as Markdown after griffe has read it."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of `obj`."""
        if obj.docstring:
            obj.docstring.value = linked(as_markdown(obj.docstring.value), obj)


def as_markdown(text: str) -> str:
    """Turn each section into a heading and a list; `Returns` gets no list. Other text is unchanged."""
    return SECTION.sub(lambda found: f"\n**{found[1]}**\n\n{_listed(*found.groups())}\n", text + "\n")


def _listed(section: str, body: str) -> str:
    body = dedent(body)
    return body if section == "Returns" else ITEM.sub(lambda item: f"- `{item[1]}`" if item[1] else "- ", body)


def linked(text: str, obj: Object) -> str:
    """Turn references into links. Names without a dot are looked up from `obj`, as Python would."""

    def link(match: re.Match[str]) -> str:
        name = match[1]
        try:
            path = name if "." in name else obj.resolve(name)
        except Exception:  # a name of another package
            path = name
        return f'<autoref optional identifier="{path}"><code>{name.rpartition(".")[2]}</code></autoref>'

    return REFERENCE.sub(link, text)
