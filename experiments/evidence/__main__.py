"""At equal entropy, which way of holding it learns most? Every arm and seed on the laptop task, resumable, one page.

    make evidence                                             # all that is not there yet: many hours on two cores
    python experiments/evidence --arms GRPO "REPO-R held at 0.8" --seeds 0 1

A run is eight minutes to twenty of one core. Each that has ended is a file in docs/evidence/, and is not run again;
the tables are made of these files alone.
"""

import argparse
from itertools import product
from pathlib import Path

from arms import ARMS, SEEDS
from figure import picture
from page import page
from records import file_of, publish

from steer_trl.countdown.experiment import START, Experiment, make_start, train_methods

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs/evidence"


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
    sizes = {"steps": given.steps, "supervised_steps": given.supervised_steps, "held_out": given.held_out}
    runs = {f"{arm}, seed {seed}": (arm, seed) for seed, arm in product(given.seeds, given.arms)}
    experiment = Experiment(
        {name: ARMS[arm] | {"seed": seed} for name, (arm, seed) in runs.items()},
        given.output_dir,
        eval_every=given.eval_every,
        after_each=lambda name: publish(experiment, name, given.published, *runs[name]),
        **sizes,
    )
    for name in list(experiment.methods):
        if experiment.has_run(name):
            publish(experiment, name, given.published, *runs[name])
        if file_of(given.published, *runs[name]).exists():
            del experiment.methods[name]
    if experiment.methods and not experiment.has_run(START):
        make_start(experiment)
    train_methods(experiment)
    given.published.mkdir(parents=True, exist_ok=True)
    (given.published / "index.md").write_text(page(given.published))
    picture(given.published, given.published / "evidence.png")


if __name__ == "__main__":
    main()
