"""Writes the tables of `docs/metrics.md` from the registry of the log and the rules of the alarms: `make metrics`.

A page of the repository and not of the site only, so that it can be read there; `tests/test_docs.py` says when it is
out of date.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from steer_trl.diagnostics.keys import KEYS, PANELS, Key
from steer_trl.diagnostics.rules import RULES, Rule

PAGE = Path(__file__).parents[1] / "metrics.md"
ORIGINS = ("training", "diagnostics", "benchmarks", "TRL")
BLOCK = re.compile(r"(<!-- (\w+): written by make metrics -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Each table by the name of its place: one for each origin of keys, the panels, and the alarms."""
    titles = {key.name: panel.title for panel in PANELS for key in panel.keys}
    found = {origin: keys_of([key for key in KEYS if key.origin == origin], titles) for origin in ORIGINS}
    shown = [
        f"| {panel.title} | {', '.join(map(called, panel.keys))} | {panel.sees} | {panel.healthy} |"
        for panel in PANELS
    ]
    found["panels"] = table(("panel", "keys", "what one sees", "healthy"), shown)
    found["alarms"] = table(("alarm", "value", "fires at", "armed again at", "steps"), map(alarm, RULES))
    return found


def keys_of(keys: Iterable[Key], titles: dict[str, str]) -> str:
    """A row for each text, family by family; keys that share one share the row."""
    keys = list(keys)
    families = list(dict.fromkeys(key.name.split("/")[0] for key in keys))
    rows: dict[tuple[str, ...], list[str]] = {}
    for key in sorted(keys, key=lambda key: families.index(key.name.split("/")[0])):
        said = key.unit, escaped(key.about), titles.get(key.name, ""), ", ".join(f"`{name}`" for name in key.alarms)
        rows.setdefault(said, []).append(called(key))
    texts = [f"| {', '.join(names)} | {' | '.join(said)} |" for said, names in rows.items()]
    return table(("key", "unit", "what, and how it is estimated", "panel", "alarm"), texts)


def called(key: Key) -> str:
    """The key in backticks; of a family, its members as a page calls them."""
    return ", ".join(name if name == "…" else f"`{name}`" for name in (key.family or key.name).split(", "))


def alarm(rule: Rule) -> str:
    """One row: what is compared, and with what."""
    fires, clears = ("≥", "≤") if rule.fires > rule.clears else ("≤", "≥")
    first = "> 0" if rule.fires < 1e-9 else f"{fires} {rule.fires:g}"  # what is less than any share of tokens
    again = "0" if rule.clears == 0 else f"{clears} {rule.clears:g}"
    return f"| `{rule.name}` | {escaped(rule.compared)} | {first} | {again} | {rule.steps} |"


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
    PAGE.write_text(filled(PAGE.read_text()))
