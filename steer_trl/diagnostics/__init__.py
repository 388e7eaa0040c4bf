"""What a run shows of itself: statistics of the tokens of each optimizer step, and the alarms that read the log.

    statistics.py   a number of the log, as sums that add up over micro-batches and ranks
    quadrants.py    quadrants, entropy by position and by advantage, clipped tokens
    weights.py      what the methods did to the advantages
    sanity.py       numbers that cannot be
    change.py       the change of the entropy: predicted token by token, and realised
    rules.py        the table of alarms: what is compared with which thresholds, and what to do about it
    no_learning.py  the alarms of a run that learns nothing, under any trainer that logs GRPO's keys
    watch.py        when an alarm is raised, and when it is armed again

Nothing here changes what is trained.
"""

from steer_trl.diagnostics.change import change_statistics, realised_statistics
from steer_trl.diagnostics.quadrants import token_statistics
from steer_trl.diagnostics.rules import Rule
from steer_trl.diagnostics.sanity import sanity_statistics
from steer_trl.diagnostics.statistics import Statistic, mean
from steer_trl.diagnostics.watch import RULES, Alarm, Watch
from steer_trl.diagnostics.weights import shaping_statistics, weight_statistics
from steer_trl.options.diagnostics import DiagnosticsOptions

__all__ = [
    "RULES",
    "Alarm",
    "DiagnosticsOptions",
    "Rule",
    "Statistic",
    "Watch",
    "change_statistics",
    "mean",
    "realised_statistics",
    "sanity_statistics",
    "shaping_statistics",
    "token_statistics",
    "weight_statistics",
]
