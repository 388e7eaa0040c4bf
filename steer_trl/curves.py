"""Draws a run's entropy, reward and token weights from its log, to show whether it learns or collapses.

    curves(trainer.state.log_history).savefig("curves.png")

In the folder of a saved run, `trainer_state.json` has the same list under the key `log_history`. `docs/healthy.md`
explains the keys of the log.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from steer_trl.monitoring import key_names
from steer_trl.support.exceptions import InvalidValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (
    ("Policy entropy", "nats per token", (*key_names.ENTROPIES, key_names.STARE_TARGET, key_names.HELD_REFERENCE)),
    ("Reward", "mean of a rollout", (key_names.REWARD, key_names.REWARD_STD)),
    ("Token weights", "1 is plain GRPO", (key_names.WEIGHT_MEAN, key_names.WEIGHT_MIN, key_names.WEIGHT_MAX)),
    (
        "Shares",
        "0 to 1",
        (key_names.FRAC_REWARD_ZERO_STD, key_names.CLIPPED_RATIO, key_names.SHARE_CHANGED, key_names.GATE),
    ),
)
"""Title, unit and keys of each panel. A panel is drawn only if the log has at least one of its keys."""


def series(log_history: Iterable[dict[str, Any]], key: str) -> list[tuple[int, float]]:
    """Return (optimizer step, value) for each log entry that has a number for `key`."""
    return [(entry["step"], entry[key]) for entry in log_history if entry.get(key) is not None]


def curves(log_history: Sequence[dict[str, Any]], title: str | None = None) -> "Figure":
    """Draw entropy, reward and the other values in [`PANELS`] over the optimizer steps of one run.

    Args:
        log_history (`Sequence[dict]`): `trainer.state.log_history`. Raises `ValueError` if it has no value to draw.
        title (`str`, *optional*): the title of the figure.

    Returns:
        `matplotlib.figure.Figure`: a notebook displays it; `figure.savefig("curves.png")` writes it to a file.
    """
    # pyplot is avoided because it would choose a matplotlib back end for the whole process.
    from matplotlib.figure import Figure

    panels = []
    for head, unit, keys in PANELS:
        lines = {key: series(log_history, key) for key in keys}
        lines = {key: points for key, points in lines.items() if points}
        if lines:
            panels.append((head, unit, lines))
    if not panels:
        raise InvalidValueError(
            f"log_history has no entropy, reward or weight in any of its {len(log_history)} entries. "
            "Give trainer.state.log_history after trainer.train(); logging_steps decides how often it is written."
        )
    figure = Figure(figsize=(max(4.4 * len(panels), 6), 3.6), layout="constrained")
    figure.suptitle(title or "")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (head, unit, lines) in zip(axes, panels, strict=True):
        for key, points in lines.items():
            steps, values = zip(*points, strict=True)
            axis.plot(steps, values, label=key, marker="." if len(points) == 1 else "")
        axis.set(title=head, xlabel="optimizer step", ylabel=unit)
        # The entropy axis begins at 0, so that a small change looks small.
        if key_names.ENTROPY in lines:
            axis.set_ylim(0, 1.1 * axis.get_ylim()[1])
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    return figure
