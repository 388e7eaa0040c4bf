"""Compares the controls with the baseline and the constant level. Each control changes one thing in one of them."""

from statistics import mean

from experiments.evidence.pairs import (
    BASELINE,
    JUDGED,
    PRIMARY,
    PROTOCOL,
    Arms,
    differences_of,
    entropy_at_end,
    mean_of,
)
from experiments.lab.tables import markdown_table

HELD = JUDGED[0]
MEASURES = list(PRIMARY.items())[1:]


def controls(arms: Arms) -> str:
    """Return a table of each control's results, and of its differences from the baseline and the constant level."""
    rows = [_row(arms, arm) for arm in (BASELINE, HELD, *(arm for arm in arms if arm not in PROTOCOL))]
    names = [cell for name, _ in MEASURES for cell in (name, "against the baseline", "against the level")]
    return markdown_table(["", "runs", "entropy", *names], rows)


def _row(arms: Arms, arm: str) -> list[str]:
    """Return the table row of an arm.

    Arms of the protocol are limited to the pairs of start and seed that controls have. With a single run, no
    difference is given.
    """
    tried = {pair for name, runs in arms.items() if name not in PROTOCOL for pair in runs}
    runs = [run for pair, run in arms[arm].items() if pair in tried]
    cells = [arm, str(len(runs)), f"{mean(map(entropy_at_end, runs)):.3f}"]
    others = [differences_of(arms, arm, other) for other in (BASELINE, HELD) if arm not in PROTOCOL and len(runs) > 1]
    for name, measure in MEASURES:
        against = [f"{one[name].difference:+.3f} ({one[name].low:+.3f} to {one[name].high:+.3f})" for one in others]
        cells += [f"{mean_of(runs, measure):.3f}", *(against or ["", ""])]
    return cells
