"""Draws what each level of the dial solves. Lines show the start model, the baseline and their mixture."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.dial import analysis
from experiments.dial.analysis import Interval, best, best_mixture, over_starts
from experiments.dial.regime import Regime

LEVELS = (0.5, 0.65, 0.8)
PANELS = ("solved in one try, %", "solved in 16 tries, %", "different correct answers of 16, T = 1")


def draw(regime: Regime, path: Path) -> None:
    """Draw one panel for each quantity, over the starts that the baseline and all levels have."""
    arms = {level: f"dial {level:g}" for level in LEVELS}
    starts = regime.starts("baseline", *arms.values())
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, title in zip(axes, PANELS, strict=True):
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("level at which the entropy is held, of the initial one")
        axis.set_xticks(LEVELS)
    if not starts:
        figure.suptitle("No start has all levels yet.")
        figure.savefig(path, dpi=100)
        return
    begun = regime.of("start", starts)
    lines = {"GRPO": regime.of("baseline", starts), "the start, without RL": begun}
    colours = {"GRPO": "tab:red", "the start, without RL": "tab:gray", "best mixture of both": "tab:olive"}
    for place, axis in enumerate(axes):
        points = [_values(place, regime.of(arm, starts)) for arm in arms.values()]
        means = [one.mean for one in points]
        axis.plot(LEVELS, means, "o-", color="tab:blue", label="held at a level")
        if len(starts) > 1:
            lows, highs = [one.low for one in points], [one.high for one in points]
            axis.fill_between(LEVELS, lows, highs, color="tab:blue", alpha=0.2, lw=0)
        for name, runs in lines.items():
            _line(axis, _values(place, runs), name, colours[name])
        if place < 2:
            k = (1, 16)[place]
            pairs = zip(lines["GRPO"], begun, strict=True)
            mixed = over_starts([100 * best_mixture(run, start, k).value for run, start in pairs])
            _line(axis, mixed, "best mixture of both", colours["best mixture of both"])
    axes[0].legend(fontsize=8)
    figure.suptitle(f"Long regime, {len(starts)} starts; bands: 95 % over starts", fontsize=10)
    figure.savefig(path, dpi=100)


def _values(place: int, runs: list[analysis.Run]) -> Interval:
    if place == 2:
        return over_starts([analysis.at_temperature_one(run)[2] for run in runs])
    return over_starts([100 * best(run, (1, 16)[place]).value for run in runs])


def _line(axis: Any, value: Interval, name: str, colour: str) -> None:
    axis.axhline(value.mean, color=colour, ls="--", label=name)
