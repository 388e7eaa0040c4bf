"""Draws the entropy of a demonstration's runs over generated tokens, and the shares of problems solved."""

from matplotlib.figure import Figure

from steer_trl.curves import series
from steer_trl.demo.folders import GRPO, HELD, START, TEST
from steer_trl.demo.result import Result
from steer_trl.evaluation.records import SUMMARY
from steer_trl.monitoring import key_names, run_files

STYLES = {START: ("start", "#b0b0b0"), GRPO: ("GRPO", "#d1495b"), HELD: ("entropy held", "#1d7874")}
TRIES = {"avg@16": "in one try", "pass@16": "in 16 tries"}


def draw(result: Result) -> Figure:
    """Draw the entropy curves on the left, and the shares of solved problems on the right."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    curves, bars = figure.subplots(1, 2, width_ratios=[1.5, 1])
    for name, log in result.logs.items():
        rollouts = [line for line in log if key_names.GENERATED_TOKENS in line and key_names.ENTROPY in line]
        points = [(line[key_names.GENERATED_TOKENS] / 1e6, line[key_names.ENTROPY]) for line in rollouts]
        label, colour = STYLES[name]
        curves.plot(*zip(*points, strict=True), color=colour, label=label)
    # The log of a very short run has no target, because the target is unknown in the first rollouts.
    for _, target in series(result.logs[HELD], key_names.HELD_TARGET)[-1:]:
        curves.axhline(target, color="black", linestyle="--", linewidth=1, label="target")
    curves.set(title="Policy entropy", xlabel="generated tokens, millions", ylabel="nats per token")
    curves.set_ylim(bottom=0)
    for i, (name, (label, colour)) in enumerate(STYLES.items()):
        summary = run_files.loads((result.folder / name / TEST / "t1" / SUMMARY).read_bytes()) or {}
        metrics = [summary["benchmarks"]["test"]["metrics"][metric] for metric in TRIES]
        places = [group + 0.27 * (i - 1) for group in range(len(TRIES))]
        heights, errors = ([100 * value for value in column] for column in zip(*metrics, strict=True))
        drawn = bars.bar(places, heights, 0.25, yerr=errors, color=colour, label=label)
        bars.bar_label(drawn, fmt="%.0f", label_type="center", color="white")
    bars.set(title="Test problems solved, %", ylim=(0, 100))
    bars.set_xticks(range(len(TRIES)), list(TRIES.values()))
    for axis in (curves, bars):
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    return figure
