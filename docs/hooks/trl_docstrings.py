"""Docstrings in TRL's style, as Markdown: `Args:` becomes a heading, its items a list, [`~steer_trl.X`] a link."""

import re
from typing import Any

from griffe import Extension, Object

SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Example")
REFERENCE = re.compile(r"\[`~?([\w.]+)`\]")
ITEM = re.compile(r"^([*\w]+(?:, [*\w]+)*)(?=:| \()")


class TrlDocstrings(Extension):
    """Rewrites every docstring once it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite that of `obj`."""
        if obj.docstring:
            obj.docstring.value = linked(as_markdown(obj.docstring.value), obj)


def as_markdown(text: str) -> str:
    """Make headings and lists of the sections. What stands in front of them stays as it is."""
    lines, section = [], None
    for line in text.splitlines():
        name = line.strip().removesuffix(":")
        if line.endswith(":") and name in SECTIONS and not line.startswith(" "):
            section = name
            lines += ["", f"**{name}**", ""]
        elif line and not line.startswith(" "):
            section = None
            lines.append(line)
        elif section in ("Args", "Attributes", "Raises") and re.match(r" {4}\S", line):
            lines.append("- " + ITEM.sub(as_code, line.strip()))
        elif section == "Returns":
            lines.append(line.removeprefix("    "))
        else:  # a continued item is indented by eight, as a list wants four
            lines.append(line.removeprefix("    ") if section in ("Args", "Attributes", "Raises") else line)
    return "\n".join(lines)


def as_code(names: re.Match[str]) -> str:
    """Put each name of an item between backticks."""
    return ", ".join(f"`{name}`" for name in names[1].split(", "))


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
