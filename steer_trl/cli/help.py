"""What `--help` prints: the flags that everybody needs first, then groups of settings, each a line or two."""

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from shutil import get_terminal_size
from typing import Any

from steer_trl.options.base import About
from steer_trl.shaping.methods import SHAPERS

# What this package makes of a setting of Transformers', which leaves it to scripts.
OF_OURS = {
    "resume_from_checkpoint": "true for the last complete checkpoint in output_dir, auto for the same if there is one "
    "and step 0 otherwise, or the folder of a checkpoint."
}
INDENT = " " * 6
SENTENCE = re.compile(r"(?<=\w[.)`'])\s+(?=[A-Z`])")


def settings_of(*kinds: Any) -> dict[str, Field]:
    """The fields of dataclasses, by name; of two with one name the first."""
    found: dict[str, Field] = {}
    for kind in kinds:
        found |= {field.name: field for field in fields(kind) if field.init and field.name not in found}
    return found


def method_groups() -> dict[str, list[str]]:
    """For each method that has settings of its own, their names; a setting of several is with the first."""
    groups: dict[str, list[str]] = {}
    seen: set[str] = set()
    for name, method in SHAPERS.items():
        own = [setting for setting in method.settings() if setting not in seen and setting != "correct_threshold"]
        seen |= set(own)
        if own:
            groups[f"Method {name!r}"] = own
    return groups


def text(
    head: str, groups: Mapping[str, Iterable[str]], known: Mapping[str, Field], tail: str = "", short: bool = False
) -> str:
    """Return the help: `head`, the settings of each group under its heading, `tail`.

    If it is to be `short`, of what another package says of its setting the first sentence.
    """
    width = min(get_terminal_size().columns, 120)
    parts = [head.strip()]
    for heading, names in groups.items():
        parts.append(
            "\n".join([f"{heading}:", *(line for name in names for line in _lines(known[name], width, short))])
        )
    return "\n\n".join([*parts, tail.strip()]).strip() + "\n"


def _lines(field: Field, width: int, short: bool) -> list[str]:
    about = OF_OURS.get(field.name) or " ".join(str(field.metadata.get("help", "")).split())
    if short and not isinstance(field.metadata.get("help"), About):
        about = SENTENCE.split(about)[0].rstrip(".") + "."
    default = field.default if field.default_factory is MISSING else field.default_factory()
    value = "" if default is MISSING or default is None else f" (default: {_shown(default)})"
    line = f"  --{field.name}  {about}{value}".rstrip()
    return textwrap.wrap(line, width, subsequent_indent=INDENT, break_on_hyphens=False, break_long_words=False)


def _shown(default: Any) -> str:
    if isinstance(default, (list, tuple)):
        return " ".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(getattr(default, "value", default))
