"""Watch a small model's entropy collapse under GRPO, and what it learns where it is held. No download, no GPU.

    make quickstart
    python examples/quickstart.py --setting papers --output_dir runs/papers

A Qwen2 of 0.36 million parameters is made from scratch, taught a number puzzle with several correct solutions per
problem by supervised learning, and then trained from that same start by each method. By default the supervised part
stops early, and there is much to learn: by GRPO, by GRPO with dynamic sampling, and by that with the entropy held at
half of its initial value as well, so that one sees what each part gives. With `--setting papers` it goes on to where
there is nothing left to learn, and STEER and STARE run with their papers' constants. Prints one table, and writes a
picture and a page with all curves and the completions token by token.
"""

import argparse
import time
from pathlib import Path

from steer_trl import report
from steer_trl.countdown.experiment import Experiment, run
from steer_trl.countdown.report import picture, table, verdicts

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
SIZES = {
    "held": {"supervised_steps": 650, "steps": 750, "eval_every": 150},
    "papers": {"supervised_steps": 1100, "steps": 320, "eval_every": 80},
}


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=METHODS, default="held")
    parser.add_argument("--output_dir", type=Path, default=Path("runs/quickstart"))
    parser.add_argument("--supervised_steps", type=int, help="optimizer steps before reinforcement learning")
    parser.add_argument("--steps", type=int, help="optimizer steps of each method")
    parser.add_argument("--eval_every", type=int, help="optimizer steps between two evaluations")
    parser.add_argument("--held_out", type=int, default=400, help="problems to judge on")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sizes = {name: getattr(arguments, name) or usual for name, usual in SIZES[arguments.setting].items()}
    methods = METHODS[arguments.setting]
    # Dynamic sampling writes half as much again for each step: as many tokens as GRPO in all.
    fewer = {"max_steps": sizes["steps"] * 2 // 3, "eval_every": sizes["eval_every"] * 2 // 3}
    methods = {name: one | fewer if "dynamic_sampling" in one else one for name, one in methods.items()}
    began = time.perf_counter()
    experiment = Experiment(methods, arguments.output_dir, held_out=arguments.held_out, seed=arguments.seed, **sizes)
    results = run(experiment)
    picture(results, arguments.output_dir / "curves.png")
    minutes = (time.perf_counter() - began) / 60
    judged = [verdicts(results, against, [name]) for name, against in pairs(arguments.setting)]
    summary = "\n\n".join([table(results, arguments.held_out), *judged]) + "\n"
    (arguments.output_dir / "table.txt").write_text(summary)
    page = report.write([experiment.folder(name) for name in methods], arguments.output_dir / "report.html")
    print(f"\n{summary}\n{minutes:.1f} minutes. Picture: {arguments.output_dir / 'curves.png'}")
    print(f"Every curve, and what the models write, token by token: open {page} in a browser.")


def pairs(setting: str) -> list[tuple[str, str]]:
    """Each method but GRPO, and what it is held against."""
    return [(name, BASELINES[setting].get(name, "GRPO")) for name in METHODS[setting] if name != "GRPO"]


if __name__ == "__main__":
    main()
