"""Watch what weights on surprising tokens give, and cost: two trainings of a small model. No download, no GPU.

    make quickstart

A Qwen2 of 0.36 million parameters is made from scratch, taught a number puzzle with several correct solutions per
problem by supervised learning, and then trained from that same start twice, side by side, until each run has generated
as many tokens: by GRPO with dynamic sampling, and by that with constant weights on surprising tokens, 1.25 in correct
answers and 0.8 in incorrect ones. Each is then sampled at several temperatures: which solves more in one try, which in
sixteen? Prints the tables of `steer-trl compare --frontier`, and writes its picture and a page with all curves and
single tokens.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from experiments.lab import Experiment, side_by_side
from experiments.lab.countdown import COUNTDOWN
from experiments.lab.runs import TEST
from steer_trl import report
from steer_trl.countdown.model import START_STEPS

BASELINE = {"advantage_shaping": "none", "dynamic_sampling": "resample"}
METHODS = {
    "GRPO, dynamic sampling": BASELINE,
    "constant weight": BASELINE
    | {"advantage_shaping": "stare", "stare_variant": "C2", "stare_gate": "none"}
    | {"stare_amplify": 1.25, "stare_attenuate": 0.8},
}
LEARNING_RATE = 1.25e-4  # twice the recipe's, which is for two million tokens: here there is one
SAMPLINGS = ["t0.25", "t0.5", "t0.75", "t1", "t1.25"]


def main() -> None:
    """Train both, and compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/quickstart"))
    parser.add_argument("--supervised_steps", type=int, default=START_STEPS, help="before reinforcement learning")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="that each method generates")
    parser.add_argument("--num_problems", type=int, default=400, help="problems to choose by, and to judge by")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.perf_counter()

    steps, problems = given.supervised_steps, given.num_problems
    experiment = Experiment(COUNTDOWN, given.output_dir, given.seed, steps, problems, SAMPLINGS)
    common = {"max_generated_tokens": given.tokens, "max_steps": 2000, "seed": given.seed}
    common |= {"learning_rate": LEARNING_RATE, "eval_samplings": ["t1"]}
    experiment.make_start()
    side_by_side(lambda name: experiment.train(name, METHODS[name] | common), METHODS)

    folders = [experiment.folder(name) for name in METHODS]
    tests = [str(folder / TEST) for folder in (*folders, experiment.folder("start"))]
    command = [sys.executable, "-m", "steer_trl.cli", "compare", "--frontier", *tests[:2], "--fallback", tests[2]]
    command += ["--picture", str(given.output_dir / "frontier.png")]
    tables = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (given.output_dir / "tables.txt").write_text(tables)
    page = report.write(folders, given.output_dir / "report.html")
    print(f"\nA: {folders[0].name}, B: {folders[1].name}\n\n{tables}")
    print(f"{(time.perf_counter() - began) / 60:.1f} minutes. Every curve, and what the models write: open {page}")


if __name__ == "__main__":
    main()
