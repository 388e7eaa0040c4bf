"""The curves of a run, drawn from its log: is the policy collapsing, does it learn, and what does the method do?

    from steer_trl.curves import curves

    curves(trainer.state.log_history).savefig("curves.png")

A saved run has the same list in `trainer_state.json`, under `log_history`. `metrics.py` says what the keys mean.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Title, unit, keys. A panel is drawn where the log has one of its keys.
PANELS = (
    ("Policy entropy", "nats per token", ("entropy", "rollout_entropy", "stare/target_entropy")),
    ("Reward", "mean of a rollout", ("reward", "reward_std")),
    ("Token weights", "", ("shaping/weight_max", "shaping/weight_mean", "shaping/weight_min")),
    (
        "Shares",
        "0 to 1",
        ("shaping/share_changed", "stare/gate", "frac_reward_zero_std", "completions/clipped_ratio"),
    ),
)


def curves(log_history: Sequence[dict[str, Any]], title: str | None = None) -> "Figure":
    """Draw entropy, reward, token weights and shares over the optimizer steps of one run.

    Args:
        log_history (`Sequence[dict]`): `trainer.state.log_history`.
        title (`str`, *optional*): written above.

    Returns:
        `matplotlib.figure.Figure`: a notebook shows it as it is; `figure.savefig("curves.png")` writes it.

    Raises:
        `ValueError`: the log has none of the keys.
    """
    from matplotlib.figure import Figure  # not pyplot: the choice of a back end stays the user's

    points = {key: _points(log_history, key) for _, _, keys in PANELS for key in keys}
    panels = [(head, unit, [key for key in keys if points[key]]) for head, unit, keys in PANELS]
    panels = [panel for panel in panels if panel[2]]
    if not panels:
        raise ValueError(
            f"log_history is refused: none of its {len(log_history)} entries has an entropy, a reward or a weight. "
            "Give trainer.state.log_history after trainer.train(); logging_steps says how often it is written."
        )
    figure = Figure(figsize=(4.4 * len(panels), 3.6), layout="constrained")
    figure.suptitle(title)
    for axis, (head, unit, keys) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for key in keys:
            axis.plot(*zip(*points[key], strict=True), label=key, marker="." if len(points[key]) == 1 else "")
        axis.set(title=head, xlabel="optimizer step", ylabel=unit)
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    return figure


def _points(log_history: Sequence[dict[str, Any]], key: str) -> list[tuple[int, float]]:
    return [(entry["step"], entry[key]) for entry in log_history if key in entry]
