"""Writes the tables of `docs/report.md` and `docs/healthy.md` from the registry of the log and the rules of alarms.

`make metrics`. They are pages of the repository and not of the site only, so that they can be read there;
`tests/test_docs.py` says when one is out of date.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from steer_trl.diagnostics.entropy_rules import ENTROPY_RULES
from steer_trl.diagnostics.keys import KEYS, Key
from steer_trl.diagnostics.learning_rules import LEARNING_RULES
from steer_trl.diagnostics.rules import Rule

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("report.md", "healthy.md")]
ORIGINS = ("training", "diagnostics")
BLOCK = re.compile(r"(<!-- (\w+): written by make metrics -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Each table by the name of its place: one for each origin of keys, and the alarms of two kinds."""
    found = {origin: keys_of([key for key in KEYS if key.origin == origin]) for origin in ORIGINS}
    for place, kind in (("alarms", ENTROPY_RULES), ("no_learning", LEARNING_RULES)):
        found[place] = table(("alarm", "value", "fires at", "armed again at", "steps"), map(alarm, kind))
    return found


def keys_of(keys: Iterable[Key]) -> str:
    """A row for each text, family by family; keys that share one share the row."""
    keys = list(keys)
    families = list(dict.fromkeys(key.name.split("/")[0] for key in keys))
    rows: dict[tuple[str, ...], list[str]] = {}
    for key in sorted(keys, key=lambda key: families.index(key.name.split("/")[0])):
        rows.setdefault((key.unit, escaped(key.about)), []).append(called(key))
    texts = [f"| {', '.join(names)} | {' | '.join(said)} |" for said, names in rows.items()]
    return table(("key", "unit", "what, and how it is estimated"), texts)


def called(key: Key) -> str:
    """The key in backticks; of a family, its members as a page calls them."""
    return ", ".join(name if name == "…" else f"`{name}`" for name in (key.family or key.name).split(", "))


def alarm(rule: Rule) -> str:
    """One row: what is compared, and with what."""
    fires, clears = ("≥", "≤") if rule.fires > rule.clears else ("≤", "≥")
    first, again = threshold(fires, rule.fires), threshold(clears, rule.clears)
    return f"| `{rule.name}` | {escaped(rule.compared)} | {first} | {again} | {rule.steps} |"


def threshold(sign: str, value: float) -> str:
    """A threshold of a value that is never below 0: as much as 1e-12 is anything above it."""
    return "0" if value == 0 else "> 0" if value < 1e-9 else f"{sign} {value:g}".replace("e-0", "e-")


def escaped(text: str) -> str:
    """The text with nothing in it that ends a cell."""
    return text.replace("|", "\\|")


def table(head: Iterable[str], rows: Iterable[str]) -> str:
    """A table of Markdown."""
    head = list(head)
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]) + "\n"


def filled(page: str) -> str:
    """The page with the tables in their places."""
    found = tables()
    return BLOCK.sub(lambda place: f"{place[1]}\n{found[place[2]]}\n{place[3]}", page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text()))
