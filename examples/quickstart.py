"""Watch a small model's entropy collapse under GRPO, and what it learns where it is held. No download, no GPU.

    make quickstart
    python examples/quickstart.py --setting papers --output_dir runs/papers

A Qwen2 of 0.36 million parameters is made from scratch, taught a number puzzle with several correct solutions per
problem by supervised learning, and then trained from that same start in several ways, until each has generated as many
tokens. By default the supervised part stops early, and there is much to learn: by GRPO, by GRPO with dynamic sampling,
and by that with the entropy held at half of its initial value as well, so that one sees what each part gives. With
`--setting papers` it continues to where there is nothing left to learn, and STEER and STARE run with their papers'
constants. Prints one table, and writes a picture and a page with all curves and the completions token by token.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from lab import Experiment, picture, read_results, side_by_side, table, verdicts
from lab.countdown import COUNTDOWN

from steer_trl import report
from steer_trl.countdown.model import START_STEPS

# 0.3 nats, STARE's target, lies above this model's first entropy; 80 % of that is held instead.
STARE = {
    "advantage_shaping": "stare",
    "stare_variant": "C2",
    "stare_target_entropy": 0.8,
    "stare_target_entropy_unit": "initial",
}
SAMPLED = "GRPO, dynamic sampling"
HELD = "entropy held at 0.5, dynamic sampling"
METHODS = {
    "held": {
        "GRPO": {"advantage_shaping": "none"},
        SAMPLED: {"advantage_shaping": "none", "dynamic_sampling": "resample"},
        HELD: {"advantage_shaping": "repo_r", "hold_entropy": 0.5, "dynamic_sampling": "resample"},
    },
    "papers": {
        "GRPO": {"advantage_shaping": "none"},
        "STEER (paper)": {"advantage_shaping": "steer"},
        "STARE C2 (paper)": STARE,
        "STARE C2, W 1.5 M 0.5 (beyond the paper)": STARE | {"stare_amplify": 1.5, "stare_attenuate": 0.5},
    },
}
BASELINES = {"held": {SAMPLED: "GRPO", HELD: SAMPLED}, "papers": {}}
"""What a method is held against: the run that has everything but the thing; GRPO where none is named."""
SUPERVISED_STEPS = {"held": START_STEPS, "papers": 1100}
TOKENS = {"held": 1_000_000, "papers": 600_000}


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=METHODS, default="held")
    parser.add_argument("--output_dir", type=Path, default=Path("runs/quickstart"))
    parser.add_argument("--supervised_steps", type=int, help="optimizer steps before reinforcement learning")
    parser.add_argument("--tokens", type=int, help="tokens that each method generates")
    parser.add_argument("--num_problems", type=int, default=400, help="problems to choose by, and to judge by")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.perf_counter()

    steps = given.supervised_steps or SUPERVISED_STEPS[given.setting]
    experiment = Experiment(COUNTDOWN, given.output_dir, given.seed, steps, given.num_problems)
    budget = {"max_generated_tokens": given.tokens or TOKENS[given.setting], "max_steps": 2000, "seed": given.seed}
    methods = METHODS[given.setting]
    experiment.make_start()
    side_by_side(lambda name: experiment.train(name, methods[name] | budget), methods)

    results = read_results(experiment, list(methods))
    baselines = BASELINES[given.setting]
    judged = [verdicts(results, baselines.get(name, "GRPO"), [name]) for name in methods if name != "GRPO"]
    summary = "\n\n".join([table(results), *judged]) + "\n"
    (given.output_dir / "table.txt").write_text(summary)
    picture(results, given.output_dir / "curves.png")
    page = report.write([experiment.folder(name) for name in methods], given.output_dir / "report.html")
    minutes = (time.perf_counter() - began) / 60
    print(f"\n{summary}\n{minutes:.1f} minutes. Picture: {given.output_dir / 'curves.png'}")
    print(f"Every curve, and what the models write, token by token: open {page} in a browser.")


if __name__ == "__main__":
    main()
