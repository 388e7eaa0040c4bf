"""Prints the table in README of how many tries each arm needs to solve what the baseline solves in 4, 8 and 16.

    python -m experiments.evidence.tries

The runs are those of the second protocol. For each number of tries, the temperature is the one that is best for the
arm on the validation problems. The number of tries is interpolated on each run's curve over the test problems. ± is
the half width of a 95 % interval over starts (Student's t).
"""

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from experiments.evidence.pairs import BASELINE
from experiments.lab.published import read_counts
from experiments.lab.tables import markdown_table
from steer_trl.evaluation.metrics import pass_at_k
from steer_trl.monitoring import run_files

FOLDER = Path(__file__).parents[1] / "results/countdown20"
START = "start"
ARMS = {
    "its weights on random tokens": "level, shuffled weights",
    "STARE with its authors' constants": "STARE",
    "STEER with its authors' constants": "STEER",
    "entropy held at 0.5, by STARE's C2": "level",
    "constant weight 1.25, C2": "constant weight",
    "F-GRPO and that weight": "difficulty",
}
SAMPLES, OF_BASELINE = 16, (4, 8, 16)
Run = tuple[int, int | None]
"""The seeds of the start model and of the training run."""
Array = NDArray[np.float64]


def load() -> dict[str, dict[Run, dict[str, Array]]]:
    """Return the curves `[temperature, k, problem]` of pass@k by arm, run and split."""
    solved = np.array([[pass_at_k(SAMPLES, c, k) for c in range(SAMPLES + 1)] for k in range(1, SAMPLES + 1)])
    found: dict[str, dict[Run, dict[str, Array]]] = defaultdict(dict)
    for path in sorted(FOLDER.glob("[acs]*/*.json")):
        record = run_files.loads(path.read_bytes()) or {}
        evaluations = [one["counts"] for name, one in read_counts(path).items() if name.startswith("t")]
        found[record["arm"]][record["start"], record["seed"]] = {
            split: np.stack([solved[:, counts[split]["correct"]] for counts in evaluations])
            for split in ("validation", "test")
        }
    return found


def curves(runs: Mapping[Run, Mapping[str, Array]]) -> dict[Run, Array]:
    """Return the share `[k]` of the test problems that each run solves, at the best temperature on validation."""
    validation = np.mean([run["validation"].mean(2) for run in runs.values()], axis=0)
    best = validation.argmax(0)
    return {key: run["test"].mean(2)[best, np.arange(SAMPLES)] for key, run in runs.items()}


def mixed(runs: Mapping[Run, Mapping[str, Array]], starts: Mapping[Run, Mapping[str, Array]]) -> dict[Run, Array]:
    """Return the curves of mixtures in which each run has one try and its start model has all others."""

    def together(run: Mapping[str, Array], start: Mapping[str, Array], split: str) -> Array:
        alone, others = run[split][:, None, :1], start[split][None, :, :-1]
        first = np.broadcast_to(alone, (len(alone), others.shape[1], 1, alone.shape[-1]))
        both = np.concatenate([first, 1 - (1 - alone) * (1 - others)], axis=2)
        return both.reshape(-1, *both.shape[2:])

    return curves(
        {
            key: {split: together(run, starts[key[0], None], split) for split in ("validation", "test")}
            for key, run in runs.items()
        }
    )


def tries(curve: Array, solved: float) -> float:
    """Return how many tries solve the share `solved`, interpolated linearly; 16 if 16 tries do not."""
    return float(np.interp(solved, [0, *curve], np.arange(SAMPLES + 1)))


def over_starts(values: Mapping[Run, float]) -> tuple[float, float]:
    """Return the mean over starts and the half width of its 95 % interval."""
    of_start = defaultdict(list)
    for (start, _), value in values.items():
        of_start[start].append(value)
    means = np.array([np.mean(one) for one in of_start.values()])
    half = stdtrit(len(means) - 1, 0.975) * means.std(ddof=1) / np.sqrt(len(means))
    return float(means.mean()), float(half)


def main() -> None:
    """Print the table."""
    runs = load()
    baseline = curves(runs[BASELINE])
    of_arms = {name: curves(runs[arm]) for name, arm in ARMS.items()}
    alone = curves(runs[START])
    of_arms["the start, without training"] = {key: alone[key[0], None] for key in baseline}
    of_arms["one try of GRPO, the others of the start"] = mixed(runs[BASELINE], runs[START])
    rows = []
    for name, of_arm in of_arms.items():
        cells = []
        for k in OF_BASELINE:
            needed = {key: tries(curve, baseline[key][k - 1]) for key, curve in of_arm.items()}
            mean, half = over_starts(needed)
            cells.append(f"{mean:.1f} ± {half:.1f}")
        price = over_starts({key: 100 * (curve[0] - baseline[key][0]) for key, curve in of_arm.items()})
        rows.append([name, *cells, f"{price[0]:+.1f} ± {price[1]:.1f}", len(of_arm)])
    shares = [100 * float(np.mean([curve[k - 1] for curve in baseline.values()])) for k in OF_BASELINE]
    head = [f"{k} tries ({share:.1f} %)" for k, share in zip(OF_BASELINE, shares, strict=True)]
    table = markdown_table(["what GRPO solves in", *head, "one try, points", "runs"], rows)
    sys.stdout.write(f"{table}\n")


if __name__ == "__main__":
    main()
