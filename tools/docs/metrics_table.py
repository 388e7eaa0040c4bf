"""Writes the tables of the log's keys and of the alarms into `docs/healthy.md`: `make metrics`.

The page is kept in the repository, so that it can be read there and not only on the site. `tests/test_docs.py`
fails if it is out of date.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from steer_trl.monitoring.entropy_rules import ENTROPY_RULES
from steer_trl.monitoring.keys import KEYS, PANELS, Key
from steer_trl.monitoring.learning_rules import LEARNING_RULES
from steer_trl.monitoring.rules import Rule

PAGE = Path(__file__).parents[2] / "docs/healthy.md"
ORIGINS = ("training", "diagnostics")
BLOCK = re.compile(r"(<!-- (\w+): written by make metrics -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Return the tables by the name of their place in a page: keys of two origins, and alarms of two kinds."""
    found = {origin: keys_of([key for key in KEYS if key.origin == origin]) for origin in ORIGINS}
    head = ("alarm", "value", "fires at", "armed again at", "steps")
    found["alarms"] = table(head, map(alarm, ENTROPY_RULES))
    rows = [f"{alarm(rule)} {causes(rule)} |" for rule in LEARNING_RULES]
    found["no_learning"] = table((*head, "explained by"), rows)
    return found


def keys_of(keys: Iterable[Key]) -> str:
    """Return a table of keys, family by family. Keys with the same unit and description share a row."""
    keys = list(keys)
    families = list(dict.fromkeys(key.name.split("/")[0] for key in keys))
    rows: dict[tuple[str, str], list[Key]] = {}
    for key in sorted(keys, key=lambda key: families.index(key.name.split("/")[0])):
        rows.setdefault((key.unit, escaped(key.about)), []).append(key)
    lines = []
    healthy_of = healthy_by_first_key()
    for (unit, about), members in rows.items():
        names = ", ".join(map(called, members))
        healthy = " ".join(filter(None, map(healthy_of.get, members)))
        # A description such as "share of the tokens" names its unit.
        measured = f"{names} ({unit})" if unit and not about.startswith(unit.partition(" ")[0]) else names
        lines.append(f"| {measured} | {about} | {escaped(healthy)} | {', '.join(alarms_of(members))} |")
    return table(("key (unit)", "what, and how it is estimated", "healthy", "alarm"), lines)


def healthy_by_first_key() -> dict[Key, str]:
    """Return what is healthy in each panel, by the first of its keys that a table has."""
    firsts = ((panel, next((key for key in panel.keys if key.origin in ORIGINS), None)) for panel in PANELS)
    return {key: panel.healthy for panel, key in firsts if key is not None}


def alarms_of(keys: Iterable[Key]) -> list[str]:
    """Return the names, in backticks, of the alarms that read one of the keys."""
    names = [f"`{key.name}`" for key in keys]
    rules = (*ENTROPY_RULES, *LEARNING_RULES)
    return [f"`{rule.name}`" for rule in rules if any(name in rule.compared for name in names)]


def called(key: Key) -> str:
    """Return the name of a key in backticks, or the names of its family's members."""
    return ", ".join(name if name == "…" else f"`{name}`" for name in (key.family or key.name).split(", "))


def alarm(rule: Rule) -> str:
    """Return the table row of an alarm's rule."""
    fires, clears = ("≥", "≤") if rule.fires > rule.clears else ("≤", "≥")
    first, again = threshold(fires, rule.fires), threshold(clears, rule.clears)
    return f"| `{rule.name}` | {escaped(rule.compared)} | {first} | {again} | {rule.steps} |"


def causes(rule: Rule) -> str:
    """Return the names, in backticks, of the alarms that explain an alarm."""
    return ", ".join(f"`{name}`" for name in rule.explained_by)


def threshold(sign: str, value: float) -> str:
    """Return a threshold with its sign. The value compared is never negative, and one below 1e-9 stands for 0."""
    return "0" if value == 0 else "> 0" if value < 1e-9 else f"{sign} {value:g}".replace("e-0", "e-")


def escaped(text: str) -> str:
    """Return the text with escaped bars, which would end a table cell."""
    return text.replace("|", "\\|")


def table(head: Iterable[str], rows: Iterable[str]) -> str:
    """Return a Markdown table."""
    head = list(head)
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]) + "\n"


def filled(page: str) -> str:
    """Return the page with new tables in their places."""
    found = tables()
    return BLOCK.sub(lambda place: f"{place[1]}\n{found[place[2]]}\n{place[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
