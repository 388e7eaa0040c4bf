"""A panel of the registry as the page draws it: which lines it has of these runs, and what its reader is told."""

import re
from collections.abc import Sequence
from typing import Any

from steer_trl.diagnostics.keys import Key, Panel
from steer_trl.report.read import Run


def as_drawn(panel: Panel, runs: Sequence[Run], keys: Sequence[str]) -> dict[str, Any]:
    """Return the panel as JSON has it, its `lines` being those of the `keys` that it draws of the `runs`."""
    lines = [line for row in panel.keys if not row.is_target for line in _lines(row, keys)]
    curves = [run.curves[line["key"]] for run in runs for line in lines if line["key"] in run.curves]
    if panel.must_move and all(len(set(curve.values())) == 1 for curve in curves):
        lines = []
    texts = ("title", "unit", "section", "sees", "healthy", "within", "is_stacked", "has_start")
    return {
        **{name: getattr(panel, name) for name in texts},
        "lines": lines,
        "targets": [row.name for row in panel.keys if row.is_target],
        "instead": {row.instead_of: row.name for row in panel.keys if row.instead_of},
    }


def _lines(row: Key, keys: Sequence[str]) -> list[dict[str, str]]:
    matches = [key for key in keys if key == row.name or (row.family and re.fullmatch(row.name, key))]
    return [{"key": key, "label": row.label or key.removeprefix("eval_").replace("_", " ")} for key in matches]
