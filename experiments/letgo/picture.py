"""Draws what each arm of block 1 solves in one try and in 16, at each of the three temperatures."""

from statistics import mean

from matplotlib.figure import Figure

from experiments.lab.runs import START
from experiments.letgo.analysis import SAMPLINGS, Block, solved

COLOURS = {
    START: "#b0b0b0",
    "GRPO": "#d1495b",
    "C2 let go": "#1d7874",
    "F-GRPO": "#edae49",
    "KL 0.03": "#7d5ba6",
    "F-GRPO and C2 let go": "#12355b",
    "STEER": "#e07a5f",
    "STARE": "#81b29a",
}


def draw(block: Block) -> Figure:
    """Draw a line for each arm through its temperatures, with the largest marker at temperature 1."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axis = figure.subplots()
    for arm, colour in COLOURS.items():
        one, many = ([mean(block.values(arm, solved(sampling, k))) for sampling in SAMPLINGS] for k in (1, 16))
        axis.plot(one, many, color=colour, label=arm)
        axis.scatter(one, many, [12, 24, 48], color=colour)
    axis.set(
        title=f"{len(block.starts)} starts, {', '.join(SAMPLINGS.values())} (the largest marker)",
        xlabel="solved in one try, %",
        ylabel="solved in 16 tries, %",
    )
    axis.title.set_fontsize(10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
