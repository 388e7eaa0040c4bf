"""Draws the entropy of a demonstration's runs over generated tokens, and the shares of problems solved."""

from matplotlib.figure import Figure

from steer_trl.demo.folders import GRPO, HELD, START, TEST, TEST_SAMPLING
from steer_trl.demo.result import Result
from steer_trl.evaluation.records import SUMMARY
from steer_trl.monitoring import run_files
from steer_trl.monitoring.key_names import ENTROPY
from steer_trl.monitoring.key_names import GENERATED_TOKENS as TOKENS
from steer_trl.monitoring.key_names import HELD_TARGET as TARGET

STYLES = {START: ("start", "#b0b0b0"), GRPO: ("GRPO", "#d1495b"), HELD: ("held, let go", "#1d7874")}
TRIES = {"avg@16": "in one try", "pass@16": "in 16 tries"}


def draw(result: Result) -> Figure:
    """Draw the entropy curves on the left, and the shares of solved problems on the right."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    curves, bars = figure.subplots(1, 2, width_ratios=[1.5, 1])
    for name, log in result.logs.items():
        points = [(line[TOKENS] / 1e6, line[ENTROPY]) for line in log if TOKENS in line and ENTROPY in line]
        label, colour = STYLES[name]
        curves.plot(*zip(*points, strict=True), color=colour, label=label)
    # The target is unknown in the first rollouts.
    targets = [(line[TOKENS] / 1e6, line[TARGET]) for line in result.logs[HELD] if TOKENS in line and TARGET in line]
    if targets:
        curves.plot(*zip(*targets, strict=True), color="black", linestyle="--", linewidth=1, label="target")
    curves.set(title="Policy entropy", xlabel="generated tokens, millions", ylabel="nats per token")
    curves.set_ylim(bottom=0)
    for i, (name, (label, colour)) in enumerate(STYLES.items()):
        summary = run_files.loads((result.folder / name / TEST / TEST_SAMPLING / SUMMARY).read_bytes()) or {}
        metrics = [summary["benchmarks"]["test"]["metrics"][metric] for metric in TRIES]
        places = [group + 0.27 * (i - 1) for group in range(len(TRIES))]
        heights, errors = ([100 * value for value in column] for column in zip(*metrics, strict=True))
        container = bars.bar(places, heights, 0.25, yerr=errors, color=colour, label=label)
        bars.bar_label(container, fmt="%.0f", padding=2)
    bars.set(title="Solved at temperature 1, %")
    # Room for the numbers above the intervals.
    bars.margins(y=0.12)
    bars.set_xticks(range(len(TRIES)), list(TRIES.values()))
    for axis in (curves, bars):
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    return figure
