"""Draws entropy, accuracies and pass@16 of the final runs over generated tokens, with mean and range."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.lab.results import smoothed

ENTROPY = "Policy entropy"
POINTS = 17
COLORS = {"GRPO": "C7", "GRPO, dynamic sampling": "C1", "constant level": "C3", "falling level": "C2"}


def picture(arms: Mapping[str, list[dict[str, Any]]], measures: Mapping[str, str], path: Path) -> None:
    """Draw the records of each arm. Accuracies and pass@16 are those on the validation split."""
    drawn = Figure(figsize=(15, 4.6), layout="constrained")
    axes = drawn.subplots(1, 1 + len(measures))
    for arm, runs in arms.items():
        color = COLORS.get(arm, "C0")
        grid = np.linspace(0, min(run["generated_tokens"] for run in runs), POINTS)
        for axis, measure in zip(axes, (ENTROPY, *measures.values()), strict=True):
            values = np.array([_on_grid(run, measure, grid) for run in runs])
            axis.plot(grid / 1e6, values.mean(axis=0), color=color, label=f"{arm} ({len(runs)} runs)")
            axis.fill_between(grid / 1e6, values.min(axis=0), values.max(axis=0), color=color, alpha=0.12, lw=0)
    for axis, title in zip(axes, (ENTROPY, *measures), strict=True):
        axis.set(title=title.capitalize(), xlabel="generated tokens, millions")
        axis.set_ylabel("nats per token" if title == ENTROPY else "share of the validation problems")
        axis.grid(alpha=0.3)
    axes[0].set_ylim(0, None)
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    drawn.savefig(path, dpi=100)


def _on_grid(run: dict[str, Any], measure: str, grid: np.ndarray) -> np.ndarray:
    """Return a run's values at the numbers of generated tokens in `grid`, interpolated linearly."""
    steps, tokens = [0, *run["rollouts"]["step"]], [0, *run["rollouts"]["generated_tokens"]]
    if measure == ENTROPY:
        points = [pair for pair in zip(tokens[1:], run["rollouts"]["entropy"], strict=True) if pair[1] is not None]
        at, values = [tokens for tokens, _ in points], smoothed([entropy for _, entropy in points])
    else:
        at = [float(np.interp(step, steps, tokens)) for step, *_ in run["validation"][measure]]
        values = [value for _, value, _ in run["validation"][measure]]
    return np.interp(grid, at, values)
