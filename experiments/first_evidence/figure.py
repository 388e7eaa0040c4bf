"""The picture of the published runs: entropy, accuracy and pass@16 over the tokens of all rollouts."""

import sys
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure
from measures import Run, course, load

sys.path.insert(0, str(Path(__file__).parents[1]))
from lab.results import smoothed

DRAWN = (
    "GRPO",
    "GRPO, dynamic sampling",
    "REPO-R held at 0.5, earlier regulator, dynamic sampling",
    "STARE C2 held at 0.5, earlier regulator, dynamic sampling",
)
PANELS = {
    "Accuracy, top-p 0.7": ("top-p 0.7", "accuracy"),
    "Solved by at least one of 16 samples": ("T=1", "pass@16"),
}


def picture(folder: Path, path: Path) -> None:
    """Draw some of the arms, as far as there are runs; the bands go from the lowest seed to the highest."""
    arms = {arm: runs for arm, runs in load(folder).items() if arm in DRAWN}
    drawn = Figure(figsize=(13, 4.6), layout="constrained")
    axes = drawn.subplots(1, 1 + len(PANELS))
    for color, (arm, runs) in enumerate(arms.items()):
        style = {"color": f"C{color}", "label": f"{arm} ({len(runs)} seeds)"}
        shared = min(len(run["log"]) for run in runs)
        entropies = [smoothed([entry["entropy"] for entry in run["log"][:shared]]) for run in runs]
        tokens = [mean(run["log"][i]["num_tokens"] for run in runs) / 1e6 for i in range(shared)]
        axes[0].plot(tokens, [mean(values) for values in zip(*entropies, strict=True)], **style)
        for axis, metric in zip(axes[1:], PANELS.values(), strict=True):
            _band(axis, runs, metric, style)
    axes[0].set(title="Policy entropy", ylabel="nats per token", ylim=(0, None))
    for axis, title in zip(axes[1:], PANELS, strict=True):
        axis.set(title=title, ylabel="share, held-out problems")
    for axis in axes:
        axis.set_xlabel("tokens of all rollouts, millions")
        axis.grid(alpha=0.3)
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    drawn.savefig(path, dpi=110)


def _band(axis: object, runs: list[Run], metric: tuple[str, str], style: dict[str, str]) -> None:
    courses = [course(run, metric) for run in runs]
    points = list(zip(*courses, strict=False))
    tokens = [mean(at for at, _ in point) for point in points]
    values = [[value for _, value in point] for point in points]
    axis.plot(tokens, list(map(mean, values)), marker="o", markersize=3, **style)
    axis.fill_between(tokens, list(map(min, values)), list(map(max, values)), color=style["color"], alpha=0.12, lw=0)
