"""At equal entropy, which way of holding it learns most? Every arm and seed on the laptop task, resumable, one page.

    make evidence                                             # all that is not there yet: many hours on two cores
    python examples/evidence --arms GRPO "REPO-R held at 0.8" --seeds 0 1

A run is eight minutes to twenty of one core. Each that has ended is a file in docs/evidence/, and is not run again;
the tables are made of these files alone.
"""

import argparse
import json
from itertools import product
from pathlib import Path

from arms import ARMS, SEEDS
from tables import page

from steer_trl.countdown.evaluation import MEASURED
from steer_trl.countdown.experiment import START, Experiment, make_start, train_methods

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs/evidence"
KEPT = (
    "step",
    "entropy",
    "rollout_entropy",
    "num_tokens",
    "reward",
    "frac_reward_zero_std",
    "completions/mean_length",
)
HELD = ("hold_entropy/target", "hold_entropy/reference", "hold_entropy/strength")
EVERY = 4  # optimizer steps of a rollout: an entry each


def main() -> None:
    """Run what is missing, publish it, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--supervised_steps", type=int, default=650)
    parser.add_argument("--held_out", type=int, default=400)
    parser.add_argument("--eval_every", type=int, default=250)
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/evidence")
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    given = parser.parse_args()
    wanted = {f"{arm}, seed {seed}": (arm, seed) for seed, arm in product(given.seeds, given.arms)}
    missing = {name: run for name, run in wanted.items() if not _file(given.published, *run).exists()}
    sizes = {"steps": given.steps, "supervised_steps": given.supervised_steps, "held_out": given.held_out}
    experiment = Experiment(
        {name: ARMS[arm] | {"seed": seed} for name, (arm, seed) in missing.items()},
        given.output_dir,
        eval_every=given.eval_every,
        after_each=lambda name: _publish(experiment, name, given.published, *missing[name], sizes),
        **sizes,
    )
    if missing and not (experiment.folder(START) / MEASURED).exists():
        make_start(experiment)
    train_methods(experiment)
    given.published.mkdir(parents=True, exist_ok=True)
    (given.published / "index.md").write_text(page(given.published))


def _file(folder: Path, arm: str, seed: int) -> Path:
    return folder / f"{arm.lower().replace(' ', '-')}-seed{seed}.json"


def _publish(experiment: Experiment, name: str, folder: Path, arm: str, seed: int, sizes: dict[str, int]) -> None:
    """Write what others need to stand beside it: settings, the log of each rollout, every evaluation."""
    measured = json.loads((experiment.folder(name) / MEASURED).read_text())
    start = json.loads((experiment.folder(START) / MEASURED).read_text())["final"]
    log = [
        {key: round(entry[key], 5) for key in (*KEPT, *HELD) if key in entry}
        for entry in measured["log"]
        if "rollout_entropy" in entry or ("entropy" in entry and entry["step"] % EVERY == 0)
    ]
    record = {"arm": arm, "seed": seed, "settings": ARMS[arm], "sizes": sizes, "seconds": measured["seconds"]}
    record |= {"start": start, "held_out": measured["held_out"], "log": log}
    folder.mkdir(parents=True, exist_ok=True)
    _file(folder, arm, seed).write_text(json.dumps(record, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
