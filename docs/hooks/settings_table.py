"""Writes the table of all settings into `docs/settings.md`, from the configuration's own fields: `make settings`.

With it is written what else follows from the methods' files (`methods_table.py`).

A page of the repository and not of the site only, so that it can be read there; `tests/test_docs.py` says when it is
out of date.
"""

from dataclasses import MISSING, Field, fields
from pathlib import Path

import methods_table
from trl import GRPOConfig

from steer_trl.config import SteerGRPOConfig
from steer_trl.options.base import ShapingConfig

PAGE = Path(__file__).parents[1] / "settings.md"
START, END = "<!-- settings: written by make settings -->\n", "<!-- end of settings -->"


def tables() -> str:
    """One table for each class of settings, in the order of the configuration."""
    known = {field.name for field in fields(GRPOConfig)}
    own = {field.name: field for field in fields(SteerGRPOConfig) if field.name not in known}
    blocks = []
    for part in dict.fromkeys([ShapingConfig, *SteerGRPOConfig.__mro__]):
        names = [name for name in vars(part).get("__annotations__", {}) if name in own]
        if names:
            about = " ".join((part.__doc__ or "").split())
            rows = [
                f"| `{name}` | `{default_of(own[name])!r}` | {interval(own[name])} | {text(own[name])} |"
                for name in names
            ]
            blocks.append(
                "\n".join(
                    [f"### {about.rstrip('.')}\n", "| field | default | range | what |", "|---|---|---|---|", *rows]
                )
            )
    return "\n\n".join(blocks) + "\n\n"


def default_of(field: Field) -> object:
    """The default, also where it is made by a function."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


def text(field: Field) -> str:
    """The help text without the range, with nothing in it that ends a cell."""
    return field.metadata["help"].text.replace("|", "\\|")


def interval(field: Field) -> str:
    """Where a number may lie."""
    within = field.metadata["help"].within
    return f"`{within}`" if within else ""


def filled(page: str) -> str:
    """The page with the tables in their place."""
    before, rest = page.split(START)
    return f"{before}{START}\n{tables()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
    methods_table.PAGE.write_text(methods_table.filled(methods_table.PAGE.read_text()))
