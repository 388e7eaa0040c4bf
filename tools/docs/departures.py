"""Writes the table of the settings in which a recipe differs from its paper into `docs/recipes.md`.

`tests/cli/test_recipes.py` fails if the table is out of date. It also checks the recipes against `papers.yaml`.
"""

from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).with_name("papers.yaml")
PAGE = Path(__file__).parents[2] / "docs/recipes.md"
START, END = "<!-- departures: written by tools/docs/departures.py -->\n", "<!-- end of departures -->"


def papers() -> dict[str, Any]:
    """Read the papers' settings and our departures from them."""
    return yaml.safe_load(DATA.read_text())


def table() -> str:
    """Return a row for each departure: the paper, the setting, its value there, our value and the reason."""
    read = papers()
    rows = ["| paper | what | there | here |", "|---|---|---|---|"]
    for one in read["departures"]:
        there = read["settings"][one["of"]][one["setting"]]
        name, ours = one["setting"], one["ours"]
        rows.append(f"| {one['of'].upper()} | `{name}` | {_value(there)} | {_value(ours)}: {one['why']} |")
    rows += [f"| {one['of']} | {one['what']} | {one['paper']} | {one['ours']} |" for one in read["other_departures"]]
    return "\n".join(rows) + "\n"


def _value(value: Any) -> str:
    return "none" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def filled(page: str) -> str:
    """Return the page with a new table between its two marks."""
    before, rest = page.split(START)
    return f"{before}{START}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
