"""Draws what each level of the dial gains over GRPO. Lines show the start model and its mixture with GRPO."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.dial import analysis
from experiments.dial.analysis import Interval, Run, best, best_mixture, over_starts
from experiments.dial.regime import START, Regime

LEVELS = (0.5, 0.65, 0.8)
PANELS = ("solved in one try, points", "solved in 16 tries, points", "different correct answers of 16, T = 1")
DISTINCT = 2
"""The panel that counts different answers."""


def draw(regime: Regime, path: Path) -> None:
    """Draw one panel for each quantity, as differences from the baseline of the same start.

    A level is drawn over all starts that it shares with the baseline.
    """
    arms = {level: f"dial {level:g}" for level in LEVELS if regime.starts("baseline", f"dial {level:g}")}
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes = figure.subplots(1, 3)
    for place, axis in enumerate(axes):
        axis.set_title(PANELS[place], fontsize=10)
        axis.set_xlabel("entropy held at this share of the initial one")
        axis.set_xticks(LEVELS)
        axis.set_xlim(0.45, 0.85)
        axis.axhline(0, color="tab:red", label="GRPO")
        found = [_difference(regime, arm, place) for arm in arms.values()]
        means = [one.mean for one in found]
        halves = [one.half for one in found]
        axis.errorbar(list(arms), means, halves, fmt="o", capsize=4, color="tab:blue", label="held at a level")
        _line(axis, _difference(regime, START, place), "before training", "tab:gray")
        if place != DISTINCT:
            _line(axis, _mixture(regime, place), "best mixture of GRPO and before training", "tab:olive")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
    figure.suptitle("Difference from GRPO; 95 % over starting models", fontsize=10)
    figure.savefig(path, dpi=100)


def _difference(regime: Regime, arm: str, place: int) -> Interval:
    """Return the difference between an arm and the baseline over the starts that both have."""
    starts = regime.starts("baseline", arm)
    pairs = zip(regime.of(arm, starts), regime.of("baseline", starts), strict=True)
    return over_starts([_measure(run, place) - _measure(baseline, place) for run, baseline in pairs])


def _measure(run: Run, place: int) -> float:
    if place == DISTINCT:
        return analysis.at_temperature_one(run)[2]
    return 100 * best(run, (1, 16)[place]).value


def _mixture(regime: Regime, place: int) -> Interval:
    """Return how much the best mixture of the baseline and the start model gains over the baseline alone."""
    k = (1, 16)[place]
    starts = regime.starts("baseline")
    pairs = zip(regime.of("baseline", starts), regime.of(START, starts), strict=True)
    return over_starts([100 * (best_mixture(run, start, k).value - best(run, k).value) for run, start in pairs])


def _line(axis: Any, value: Interval, name: str, colour: str) -> None:
    axis.axhline(value.mean, color=colour, ls="--", label=name)
