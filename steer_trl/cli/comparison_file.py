"""Writes the JSON file of `steer-trl compare`."""

import json
from pathlib import Path
from typing import Any


def write_comparisons(path: Path, sides: tuple[list[str], list[str]], entries: list[dict[str, Any]]) -> None:
    """Write the folders of both sides and the `entries` as JSON, and print the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"a": sides[0], "b": sides[1], "comparisons": entries}, indent=1) + "\n")
    print(f"Wrote {path}")  # noqa: T201
