"""Writes the tables of all settings into `docs/settings.md`, from the fields of the configuration: `make settings`.

The script also writes the table of the methods (`methods_table.py`). The pages are kept in the repository, so that
they can be read there and not only on the site. `tests/test_docs.py` fails if one is out of date.
"""

from dataclasses import MISSING, Field, fields
from pathlib import Path

import methods_table
from trl import GRPOConfig

from steer_trl.config import SteerGRPOConfig
from steer_trl.options.base import Setting, ShapingConfig, settings_of
from steer_trl.options.former_names import find_present_name
from steer_trl.shaping import SHAPERS

PAGE = Path(__file__).parents[2] / "docs/settings.md"
START, END = "<!-- settings: written by make settings -->\n", "<!-- end of settings -->"


def tables() -> str:
    """Return one table for each class of settings, in the order of the configuration, and one for all methods."""
    known = {field.name for field in fields(GRPOConfig)}
    own = {field.name: field for field in fields(SteerGRPOConfig) if field.name not in known}
    own = {name: field for name, field in own.items() if find_present_name(name) == name}
    rows: dict[str, list[str]] = {}
    for part in dict.fromkeys([ShapingConfig, *SteerGRPOConfig.__mro__]):
        about = " ".join((part.__doc__ or "").split()).rstrip(".")
        title = "Settings of single methods" if about.startswith("Settings of `") else about
        for name in (name for name in vars(part).get("__annotations__", {}) if name in own):
            rows.setdefault(title, []).append(row(name, own[name]))
    head = "| field | default, range | what |\n|---|---|---|\n"
    flat = "".join(f"### {title}\n\n{head}{''.join(lines)}\n" for title, lines in rows.items())
    return flat + options_table()


def options_table() -> str:
    """Return the table of the options that `shaping_options` sets."""
    lines = [
        f"| `{name}` | `{field.name}` | `{default_of(field)!r}` {interval(setting)} | {text(setting)} |\n"
        for name, method in SHAPERS.items()
        for field in fields(method.options_class)
        for setting in [settings_of(method.options_class)[field.name]]
    ]
    head = "| method | option | default, range | what |\n|---|---|---|---|\n"
    return f"### Options of single methods, in `shaping_options`\n\n{head}{''.join(lines)}\n"


def row(name: str, field: Field) -> str:
    """Return the table row of a field."""
    setting = settings_of(SteerGRPOConfig)[name]
    return f"| `{name}` | `{default_of(field)!r}` {interval(setting)} | {text(setting)} |\n"


def default_of(field: Field) -> object:
    """Return the default of a field, even if a function makes it."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def text(setting: Setting) -> str:
    """Return the help text without the range, with escaped bars, which would end the table cell."""
    return setting.help.removesuffix(f" In {setting.within}.").replace("|", "\\|")


def interval(setting: Setting) -> str:
    """Return the allowed range of a number, or an empty string."""
    return f"`{setting.within}`" if setting.within else ""


def filled(page: str) -> str:
    """Return the page with new tables between its two marks."""
    before, rest = page.split(START)
    return f"{before}{START}\n{tables()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
    methods_table.PAGE.write_text(methods_table.filled(methods_table.PAGE.read_text()))
