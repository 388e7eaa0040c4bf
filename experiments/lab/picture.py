"""Draws the picture of accuracy against pass@k for the pages of results."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from steer_trl.evaluation.frontier import Sweep


def draw_picture(panels: Mapping[str, Mapping[str, Sweep]]) -> Figure:
    """Draw accuracy against pass@k for the largest k, with one point for each temperature.

    Both are means over problems and runs.
    """
    figure = Figure(figsize=(8 * len(panels), 5.2), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        for label, sweep in curves.items():
            k = sweep.tries[-1]
            accuracy, solved = (100 * sweep.pass_at(tries).mean((1, 2)) for tries in (1, k))
            (line,) = axis.plot(accuracy, solved, marker="o", markersize=5, label=label)
            # Put the labels of neighbouring curves on different sides, so that they do not overlap.
            side = (-1) ** len(axis.lines)
            text = {"color": line.get_color(), "fontsize": "x-small", "ha": "center", "va": "center"}
            for temperature, *point in zip(sweep.temperatures, accuracy, solved, strict=True):
                axis.annotate(f"{temperature:g}", point, (10 * side, 6 * side), textcoords="offset points", **text)
        axis.set(title=title, xlabel="accuracy of one try, %", ylabel=f"pass@{k}, %")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small", title="each point is a temperature", title_fontsize="small")
    return figure
