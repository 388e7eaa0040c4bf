"""Docstrings in TRL's style, as Markdown: `Args:` becomes a heading, its items a list, [`~steer_trl.X`] a link.

griffe's own styles read neither types in backticks nor items of several names, which TRL's docstrings have.
"""

import re
from textwrap import dedent
from typing import Any

from griffe import Extension, Object

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Example):\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)
ITEM = re.compile(r"^(?=\S)([*\w, ]+(?=:| \())?", re.MULTILINE)
REFERENCE = re.compile(r"\[`~?([\w.]+)`\]")


class TrlDocstrings(Extension):
    """Rewrites every docstring once it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite that of `obj`."""
        if obj.docstring:
            obj.docstring.value = linked(as_markdown(obj.docstring.value), obj)


def as_markdown(text: str) -> str:
    """Make a heading and, but for `Returns`, a list of each section. What stands around them stays as it is."""
    return SECTION.sub(lambda found: f"\n**{found[1]}**\n\n{_listed(*found.groups())}\n", text + "\n")


def _listed(section: str, body: str) -> str:
    body = dedent(body)
    return body if section == "Returns" else ITEM.sub(lambda item: f"- `{item[1]}`" if item[1] else "- ", body)


def linked(text: str, obj: Object) -> str:
    """Make links of references, relative ones as Python would look the name up from `obj`."""

    def link(match: re.Match[str]) -> str:
        name = match[1]
        try:
            path = name if "." in name else obj.resolve(name)
        except Exception:  # a name of another package
            path = name
        return f'<autoref optional identifier="{path}"><code>{name.rpartition(".")[2]}</code></autoref>'

    return REFERENCE.sub(link, text)
