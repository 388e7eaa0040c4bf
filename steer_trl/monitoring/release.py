"""Finds in a run's log when the target of `hold_entropy` began to fall.

The target is constant and then falls in each rollout to the end of the run. A target that fell once, as in a run that
was resumed with a lower one, has not been let go.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

FALLS = 2
"""The number of rollouts in which the target must have fallen to the end of the log."""


class Release(NamedTuple):
    """The part of a run in which the target falls.

    Attributes:
        level (`float`): the target before it, nats per token.
        step (`int`): the last step with that target.
        final (`float`): the last target of the log, nats per token.
    """

    level: float
    step: int
    final: float


def find_release(targets: Sequence[tuple[int, float]]) -> Release | None:
    """Return when the target fell at the end of a log, or `None` if it did not.

    `targets` are the logged targets as (optimizer step, nats per token), in the order of their steps.
    """
    rollouts = [list(entries) for _, entries in groupby(targets, key=lambda entry: entry[1])]
    values = [entries[0][1] for entries in rollouts]
    first_of_fall = len(values) - 1
    while first_of_fall > 0 and values[first_of_fall - 1] > values[first_of_fall]:
        first_of_fall -= 1
    if len(values) - 1 - first_of_fall < FALLS:
        return None
    # If the run was resumed with a lower target before, the level is the target that lasted longest.
    longest = max(rollouts[first_of_fall:], key=len)
    return Release(longest[0][1], longest[-1][0], values[-1])
