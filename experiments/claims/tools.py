"""Runs the calculator example with and without STARE's weights, paired by seed, to see whether STARE works with tools.

    python -m experiments.claims.tools --seeds 0 1 2 3 4 5

Both runs of a seed begin with the same supervised model. The log of each run is published, step by step. A finished
run is not repeated.
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from train_calculator import reinforce, supervised_start  # noqa: E402  # a script of another folder

ARMS: dict[str, dict[str, Any]] = {
    "GRPO": {"advantage_shaping": "none"},
    "STARE": {"advantage_shaping": "stare", "stare_target_entropy": 0.8, "stare_target_entropy_unit": "initial"},
}
LOGGED = ("reward", "entropy", "tools/call_frequency")
STEPS, SUPERVISED_STEPS = 60, 500


def run(folder: Path, arm: str, seed: int) -> dict[str, Any]:
    """Train one arm from its seed's start model, and return its log by optimizer step."""
    model = supervised_start(folder / "start", SUPERVISED_STEPS, seed)
    quiet = {"run_log": False, "alarms": False, "terminal_log": "dict"}
    log = [row for row in reinforce(model, folder / "trainer", STEPS, seed, **ARMS[arm], **quiet) if "reward" in row]
    return {"arm": arm, "seed": seed, "steps": {key: [round(row[key], 5) for row in log] for key in LOGGED}}


def main() -> None:
    """Make the missing runs, and write all runs to one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4, 5])
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/claims_tools")
    parser.add_argument("--published", type=Path, default=ROOT / "experiments/results/claims/tools.json")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    results = json.loads(given.published.read_text()) if given.published.exists() else []
    ended = {(result["arm"], result["seed"]) for result in results}
    for seed, arm in tqdm([(seed, arm) for seed in given.seeds for arm in ARMS if (arm, seed) not in ended]):
        results.append(run(given.output_dir, arm, seed))
        given.published.write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in results) + "\n]\n")


if __name__ == "__main__":
    main()
