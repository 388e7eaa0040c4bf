"""What a run shows of itself: statistics of the tokens of each optimizer step, and the alarms that read the log.

    keys/           the registry: a row for each key of the log, and the panels of the report
    estimators.py   how a number of the log is made of sums
    statistics.py   a number of the log, as sums that add up over micro-batches and ranks
    quadrants.py    quadrants, entropy by position and by advantage, clipped tokens
    weights.py      what the methods did to the advantages
    sanity.py       numbers that cannot be
    change.py       the change of the entropy: predicted token by token
    rules.py        the table of alarms: what is compared with which thresholds, and what to do about it
    no_learning.py  the alarms of a run that learns nothing, under any trainer that logs GRPO's keys
    start.py        the entropy that a run began with, as its log has it
    watch.py        when an alarm is raised, and when it is armed again

Nothing here changes what is trained.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steer_trl.diagnostics.change import change_statistics
    from steer_trl.diagnostics.quadrants import token_statistics
    from steer_trl.diagnostics.rules import Rule
    from steer_trl.diagnostics.sanity import sanity_statistics
    from steer_trl.diagnostics.statistics import Statistic, mean
    from steer_trl.diagnostics.watch import RULES, Alarm, Watch
    from steer_trl.diagnostics.weights import shaping_statistics, weight_statistics

__all__ = [
    "RULES",
    "Alarm",
    "Rule",
    "Statistic",
    "Watch",
    "change_statistics",
    "mean",
    "sanity_statistics",
    "shaping_statistics",
    "token_statistics",
    "weight_statistics",
]

_HOMES = {
    "change": ("change_statistics",),
    "quadrants": ("token_statistics",),
    "rules": ("Rule",),
    "sanity": ("sanity_statistics",),
    "statistics": ("Statistic", "mean"),
    "watch": ("RULES", "Alarm", "Watch"),
    "weights": ("shaping_statistics", "weight_statistics"),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: a page and a picture of a log need the registry, and no torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"steer_trl.diagnostics.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
