"""The rule by which the pilots choose the coefficient of the KL penalty (protocol3.md, *Pilots*)."""

import json
import math
from pathlib import Path

from experiments.dial.plan import file_name
from experiments.lab.published import entropies_of

KL_ARMS = {0.01: "KL 0.01", 0.03: "KL 0.03", 0.1: "KL 0.1"}
"""Maps the coefficients that were tried to their arms."""
HELD = 0.65
"""The final entropy for which the coefficient is chosen, as a share of the initial entropy."""


def read_ends(folder: Path) -> dict[float, float]:
    """Return the final entropy for each coefficient that was tried, as a share of the initial entropy."""
    paths = {beta: folder / file_name(arm, 40) for beta, arm in KL_ARMS.items()}
    return {beta: entropy_at_end(path) for beta, path in paths.items() if path.exists()}


def entropy_at_end(path: Path) -> float:
    """Return the mean entropy of a published run's last fifth of rollouts, divided by that of its first four."""
    rollouts = json.loads(path.read_text())["rollouts"]
    entropies = [one for one in entropies_of(rollouts) if one is not None]
    last = entropies[-max(1, len(entropies) // 5) :]
    return (sum(last) / len(last)) / (sum(entropies[:4]) / 4)


def chosen_coefficient(ends: dict[float, float], target: float = HELD) -> float:
    """Return the coefficient with which the entropy ends at `target`, rounded to two digits.

    It is interpolated linearly in the logarithm of the coefficient. Outside the range of the coefficients that were
    tried, it is the nearest one.
    """
    coefficients = sorted(ends)
    below = [one for one in coefficients if ends[one] <= target]
    above = [one for one in coefficients if ends[one] > target]
    if not below or not above:
        chosen = coefficients[0] if not below else coefficients[-1]
    else:
        low, high = max(one for one in below if one < max(above)), min(one for one in above if one > min(below))
        share = (target - ends[low]) / (ends[high] - ends[low])
        chosen = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return float(f"{chosen:.2g}")
