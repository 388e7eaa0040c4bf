"""What is published of a run, for others to stand beside: settings, evaluations, rollouts, close looks."""

import json
import re
from itertools import chain, pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from arms import ARMS
from measures import QUADRANTS

from steer_trl.countdown.evaluation import MEASURED
from steer_trl.countdown.experiment import START, Experiment

STEPS = 4  # optimizer steps of a rollout
OF_ROLLOUT = (
    "rollout_entropy",
    "num_tokens",
    "reward",
    "frac_reward_zero_std",
    "completions/mean_length",
    "hold_entropy/target",
    "hold_entropy/reference",
    "hold_entropy/strength",
    "dynamic_sampling/tokens_per_trained_token",
)


def file_of(folder: Path, arm: str, seed: int) -> Path:
    """Where a run is published."""
    return folder / f"{re.sub(r'[^a-z0-9.]+', '-', arm.lower())}-seed{seed}.json"


def publish(experiment: Experiment, name: str, folder: Path, arm: str, seed: int) -> None:
    """Write the record of a run that has ended."""
    measured = json.loads((experiment.folder(name) / MEASURED).read_text())
    start = json.loads((experiment.folder(START) / MEASURED).read_text())["final"]
    sizes = {key: getattr(experiment, key) for key in ("supervised_steps", "steps", "held_out")}
    record = {"arm": arm, "seed": seed, "settings": ARMS[arm], "sizes": sizes, "seconds": measured["seconds"]}
    record |= {"start": start, "held_out": measured["held_out"]}
    rollouts = _rollouts(measured["log"])
    columns = {key: [rollout.get(key) for rollout in rollouts] for key in dict.fromkeys(chain(*rollouts))}
    record |= {"looks": _looks(measured["log"]), "rollouts": columns}
    folder.mkdir(parents=True, exist_ok=True)
    file_of(folder, arm, seed).write_text(json.dumps(record, separators=(",", ":")) + "\n")


def _rollouts(log: list[dict[str, Any]]) -> list[dict[str, float]]:
    """One entry for each rollout: the mean entropy of its steps, and what is logged once."""
    entries = [entry for entry in log if "entropy" in entry]
    rollouts = []
    for first in range(0, len(entries), STEPS):
        steps = entries[first : first + STEPS]
        values = {key: value for entry in steps for key, value in entry.items() if key in OF_ROLLOUT}
        values |= {"entropy": mean(entry["entropy"] for entry in steps)}
        rollouts.append({"step": steps[-1]["step"]} | {key: round(value, 5) for key, value in values.items()})
    return rollouts


def _looks(log: list[dict[str, Any]]) -> list[dict[str, float]]:
    """The steps looked at closely: what was predicted, and from the next entry what came of it."""
    looks = []
    for entry, after in pairwise(log):
        if "entropy/realised_change" in after:
            look = {name: entry[f"entropy/{name}"] for name in ("predicted_change", "estimated_change")}
            look |= {f"{name}_change": entry[f"quadrants/{name}_change"] for name in QUADRANTS}
            names = ("realised_change", "predicted_correlation", "estimated_correlation")
            look |= {name: after[f"entropy/{name}"] for name in names if f"entropy/{name}" in after}
            looks.append({"step": entry["step"]} | {k: round(v, 7) for k, v in look.items() if v is not None})
    return looks
