"""The registry of the log's keys, with the unit, estimator, description and report panel of each key.

The keys are listed in `keys.yaml`. A key is named there and in the code that computes it, and
`tests/monitoring/test_keys.py` compares the two. The registry determines `docs/healthy.md` (`make metrics`), the
panels of the report with their texts, and the token sums of an optimizer step. This module does not import torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from steer_trl.monitoring import estimators
from steer_trl.monitoring.estimators import Estimator


@dataclass(frozen=True)
class Key:
    """A key of the log. `keys.yaml` explains its fields."""

    name: str
    unit: str
    about: str
    label: str = ""
    origin: str = "training"
    estimator: Estimator | None = None
    family: str = ""
    is_target: bool = False


@dataclass(frozen=True)
class Panel:
    """A panel of the report, which draws several keys together.

    It is left out if no run has logged any of them.
    """

    section: str
    title: str
    unit: str
    keys: tuple[Key, ...]
    sees: str
    healthy: str
    within: Sequence[float | None] = (None, None)
    is_stacked: bool = False
    is_alternative: bool = False
    is_coarse: bool = False
    has_start: bool = False
    must_move: bool = False


def _key(row: dict[str, Any], **panel: Any) -> Key:
    estimator: Estimator | None = getattr(estimators, row["estimator"]) if "estimator" in row else None
    return Key(**panel | row | {"estimator": estimator})


def _panel(section: str, row: dict[str, Any]) -> Panel:
    keys = tuple(_key(key, unit=row["unit"]) for key in row["keys"])
    return Panel(section, **row | {"keys": keys})


_TABLE = yaml.safe_load(files(__package__).joinpath("keys.yaml").read_text("utf-8"))
_UNDRAWN = _TABLE.pop("undrawn")

PANELS: tuple[Panel, ...] = tuple(_panel(section, row) for section, rows in _TABLE.items() for row in rows)
"""All panels of the report, from the top of the page to the bottom."""

KEYS: tuple[Key, ...] = (*(key for panel in PANELS for key in panel.keys), *map(_key, _UNDRAWN))
"""All keys of the log: first the keys that a panel draws, then the keys that no panel draws."""

SUMMED = {key.name: key.estimator for key in KEYS if key.estimator is not None}
"""The estimator of each key that is computed from sums over tokens.

Every rank gathers the sums of all these keys, even if it could not compute some of them.
"""
