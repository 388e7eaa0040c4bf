"""The table and the picture of a comparison, and its verdicts in plain words."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import inf, nan
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

from steer_trl.countdown.evaluation import SAMPLINGS
from steer_trl.countdown.experiment import START
from steer_trl.curves import entropy_ends, series
from steer_trl.evaluation.comparison import compare_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = [
    ("T=1", "accuracy"),
    ("top-p 0.7", "accuracy"),
    ("greedy", "accuracy"),
    ("T=1", "pass@16"),
    ("top-p 0.7", "pass@16"),
    ("T=1", "distinct"),
]
DRAWN = [("top-p 0.7", "accuracy"), ("T=1", "pass@16")]


def table(results: dict[str, dict[str, Any]], problems: int, timed_against: str | None = None) -> str:
    """[`frame`] as text, and what its numbers are."""
    drawn = ", ".join(f"{num_samples} at {name}" for name, (num_samples, _) in SAMPLINGS.items())
    note = (
        f"{problems} held-out problems; samples each: {drawn}. Tokens of all rollouts, in millions. Entropy in nats "
        "per token: first step, and mean of the last ten.\n"
        "± is the half width of the 95 % interval over problems; it does not include seed-to-seed variance."
    )
    return f"{frame(results, timed_against).to_string()}\n\n{note}"


def frame(results: dict[str, dict[str, Any]], timed_against: str | None = None) -> DataFrame:
    """One row per run: tokens of its rollouts, entropy at start and end, and each metric with its 95 % interval.

    `timed_against` names the run whose time is 1 in a last column, for runs that had the machine to themselves.
    """
    rows = {}
    for name, measured in results.items():
        trained, final = name != START, measured["final"]
        row = {"tokens": f"{tokens_until(measured['log'])(inf):.2f} M" if trained else ""}
        row["entropy"] = "{:.3f} -> {:.3f}".format(*entropy_ends(measured["log"]) or (nan, nan)) if trained else ""
        for sampling, metric in COLUMNS:
            row[f"{metric} {sampling}"] = "{:.3f} ±{:.3f}".format(*final[sampling][metric])
        if timed_against:
            row["time"] = f"{measured['seconds'] / results[timed_against]['seconds']:.2f}" if trained else ""
        rows[name] = row
    return DataFrame(rows).T


def verdicts(results: dict[str, dict[str, Any]], baseline: str, methods: Sequence[str] = ()) -> str:
    """For each of the `methods`, by default all, in which metrics it differs from the baseline, and in which not.

    Each difference is paired over the same problems and has its 95 % interval; the words follow from that alone.
    """
    lines = [f"Against {baseline}, paired over the same problems, difference and 95 % interval:"]
    for name, measured in results.items():
        if name in (START, baseline) or (methods and name not in methods):
            continue
        found: dict[str, list[str]] = {"higher": [], "lower": [], "not decided": []}
        for sampling, metric in COLUMNS:
            base, own = (run["problems"][sampling][metric] for run in (results[baseline], measured))
            one = compare_values([base], [own])
            text = f"{metric} {sampling} {one.difference:+.3f} ({one.low:+.3f} to {one.high:+.3f})"
            found[one.verdict].append(text)
        lines += [f"{name}: {verdict} in {', '.join(texts)}." for verdict, texts in found.items() if texts]
    return "\n".join(lines)


def figure(results: dict[str, dict[str, Any]]) -> "Figure":
    """Draw entropy, accuracy and pass@16 over the tokens of all rollouts, one line per run."""
    from matplotlib.figure import Figure  # not pyplot: the choice of a back end stays the user's

    start = results[START]["final"]
    drawn = Figure(figsize=(13, 4.2), layout="constrained")
    axes = drawn.subplots(1, 3)
    for color, (name, measured) in enumerate((name, run) for name, run in results.items() if name != START):
        style = {"color": f"C{color}", "label": name}
        tokens = tokens_until(measured["log"])
        points = series(measured["log"], "entropy")  # none where dynamic sampling has hidden everything
        axes[0].plot([tokens(step) for step, _ in points], smoothed([value for _, value in points]), **style)
        for axis, (drawn_by, metric) in zip(axes[1:], DRAWN, strict=True):
            evaluations = [{"step": 0} | start, *measured["held_out"]]
            measures = [
                (tokens(entry["step"]), *entry[drawn_by][metric]) for entry in evaluations if drawn_by in entry
            ]
            at, values, half_widths = zip(*measures, strict=True)
            axis.errorbar(at, values, half_widths, capsize=2, marker="o", markersize=3, **style)
    drawn.suptitle("One start, several ways to go on: Countdown, 0.36 M parameters")
    axes[0].set(title="Policy entropy", ylabel="nats per token", ylim=(0, None))
    axes[1].set(
        title="Accuracy of one sample, held-out problems", ylabel="share correct (top-p 0.7, as in the papers)"
    )
    axes[2].set(title="Solved by at least one of 16 samples", ylabel="share of held-out problems (temperature 1)")
    for axis in axes:
        axis.set_xlabel("tokens of all rollouts, millions")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    return drawn


def picture(results: dict[str, dict[str, Any]], path: Path) -> None:
    """Save [`figure`] as PNG."""
    figure(results).savefig(path, dpi=130)


def tokens_until(log: Sequence[dict[str, Any]]) -> Callable[[float], float]:
    """Optimizer step -> millions of tokens of all rollouts until then, those that were dropped too."""
    steps, totals = zip((0, 0), *series(log, "num_tokens"), strict=True)
    return lambda step: totals[bisect_right(steps, step) - 1] / 1e6


def smoothed(values: Sequence[float], window: int = 8) -> list[float]:
    """Mean of each value and those before it, `window` at most."""
    return [mean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]
