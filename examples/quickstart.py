"""Watch a small model's entropy collapse under GRPO, and what STEER and STARE do about it. No download, no GPU.

    make quickstart

A Qwen2 of 0.36 million parameters is made from scratch, taught a number puzzle with several correct solutions per
problem by supervised learning, and then trained from that same start by each method. Prints one table, and writes a
picture and a page with all curves and the completions token by token.
"""

import argparse
import time
from pathlib import Path

from steer_trl import report
from steer_trl.countdown.experiment import Experiment, run
from steer_trl.countdown.report import picture, table, undecided

# 0.3 nats, the papers' target, lies above this model's first entropy; 80 % of that is held instead.
STARE = {
    "advantage_shaping": "stare",
    "stare_variant": "C2",
    "stare_target_entropy": 0.8,
    "stare_target_entropy_unit": "initial",
}
METHODS = {
    "GRPO": {"advantage_shaping": "none"},
    "STEER (paper)": {"advantage_shaping": "steer"},
    "STARE C2 (paper)": STARE,
    "STARE C2, W 1.5 M 0.5 (beyond the paper)": STARE | {"stare_amplify": 1.5, "stare_attenuate": 0.5},
}


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/quickstart"))
    parser.add_argument("--supervised_steps", type=int, default=1100)
    parser.add_argument("--steps", type=int, default=320, help="optimizer steps of each method")
    parser.add_argument("--held_out", type=int, default=400, help="problems to judge on")
    parser.add_argument("--eval_every", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.perf_counter()
    experiment = Experiment(METHODS, **vars(arguments))
    results = run(experiment)
    picture(results, arguments.output_dir / "curves.png")
    minutes = (time.perf_counter() - began) / 60
    summary = f"{table(results, arguments.held_out)}\n\n{undecided(results, 'GRPO')}\n"
    (arguments.output_dir / "table.txt").write_text(summary)
    page = report.write([experiment.folder(name) for name in METHODS], arguments.output_dir / "report.html")
    print(f"\n{summary}\n{minutes:.1f} minutes. Picture: {arguments.output_dir / 'curves.png'}")
    print(f"Every curve, and what the models write, token by token: open {page} in a browser.")


if __name__ == "__main__":
    main()
