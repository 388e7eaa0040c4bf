"""Prints the pilot of the second protocol: each arm and learning rate at its best temperatures, on validation.

python -m experiments.evidence.pilot
"""

import json
import sys
from pathlib import Path

import numpy as np

from experiments.evidence.pairs import swept
from experiments.lab.published import read_published
from experiments.lab.tables import markdown_table
from steer_trl.evaluation.frontier import Sweep
from steer_trl.evaluation.sweeps import count_sweeps

FOLDER = Path(__file__).parents[2] / "experiments/results/countdown20/pilot"


def main() -> None:
    """Print the table, the largest F first."""
    runs: dict[str, list[Path]] = {}
    for path in sorted(FOLDER.glob("*.json")):
        runs.setdefault(json.loads(path.read_text())["arm"], []).append(path)
    found = {
        arm: count_sweeps([swept(read_published(path)) for path in paths])["validation"] for arm, paths in runs.items()
    }
    rows = [[arm, str(len(runs[arm])), *_cells(sweep)] for arm, sweep in found.items()]
    rows.sort(key=lambda row: -float(row[-1]))
    head = ["arm", "runs", *(str(k) for k in next(iter(found.values())).tries), "F"]
    sys.stdout.write(markdown_table(head, rows) + "\n")


def _cells(sweep: Sweep) -> list[str]:
    """Return the per cent of problems solved in k tries, for each k at the temperature with the largest mean."""
    best = [100 * sweep.pass_at(k).mean((1, 2)).max() for k in sweep.tries]
    return [f"{value:.1f}" for value in [*best, float(np.mean(best))]]


if __name__ == "__main__":
    main()
