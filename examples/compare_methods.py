"""Every method on the laptop task, on two processes each: one table. No download, no GPU.

    make compare

The recipes in `configs/recipes/methods` say what a method sets; its batch sizes and the rest come from the task. One
run after another, so that their times can be compared.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import yaml

from steer_trl.countdown.experiment import START, Experiment, run
from steer_trl.countdown.report import table, undecided
from steer_trl.countdown.training import MEASURED

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "configs/recipes/methods"
BASELINE = "clip_higher"  # the task's own clipping


def train(recipe: Path, folder: Path, arguments: argparse.Namespace) -> None:
    """Train one method, from the start that lies beside `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    own = yaml.safe_load(recipe.read_text())
    del own["extends"], own["output_dir"]
    (folder / "recipe.yaml").write_text(yaml.safe_dump(own))
    sizes = {
        "per_device_train_batch_size": 128 // arguments.processes,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 4,
        "max_steps": arguments.steps,
        "seed": arguments.seed,
    }
    engine = ["--config_file", str(ROOT / "configs/accelerate/cpu_2_processes.yaml")]
    engine += ["--num_processes", str(arguments.processes)]
    fields = {"config": folder / "recipe.yaml", "start": folder.parent / START, "output_dir": folder} | sizes
    command = [sys.executable, "-m", "accelerate.commands.launch", *engine, str(ROOT / "examples/train_countdown.py")]
    command += [str(part) for name, value in fields.items() for part in (f"--{name}", value)]
    with open(folder / "output.txt", "w") as output:
        done = subprocess.run([*command, "--held_out", str(arguments.held_out)], stdout=output, stderr=output)
    if done.returncode:
        raise SystemExit(f"{recipe.stem} failed: see {folder / 'output.txt'}")


def make_start(arguments: argparse.Namespace) -> None:
    """Make the start where there is none; refuse one of other sizes, whose held-out problems would be others."""
    sizes = {name: getattr(arguments, name) for name in ("supervised_steps", "held_out", "seed")}
    made = arguments.output_dir / START / "sizes.json"
    if not made.exists():
        run(Experiment({}, arguments.output_dir, **sizes))
        made.write_text(json.dumps(sizes))
    elif json.loads(made.read_text()) != sizes:
        raise SystemExit(f"{made.parent} was made with {made.read_text()}. Give another --output_dir.")


def main() -> None:
    """Make the start where there is none, train every method, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/compare"))
    parser.add_argument("--methods", nargs="+", choices=sorted(path.stem for path in RECIPES.glob("*.yaml")))
    parser.add_argument("--steps", type=int, default=50, help="optimizer steps of each method")
    parser.add_argument("--supervised_steps", type=int, default=1100)
    parser.add_argument("--held_out", type=int, default=400, help="problems to judge on")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = arguments.output_dir
    make_start(arguments)
    others = arguments.methods or sorted(path.stem for path in RECIPES.glob("*.yaml"))
    names = [BASELINE, *(name for name in others if name != BASELINE)]
    for name in names:
        print(f"{name} ...", flush=True)
        train(RECIPES / f"{name}.yaml", folder / name, arguments)
    results = {name: json.loads((folder / name / MEASURED).read_text()) for name in (START, *names)}
    summary = f"{table(results, arguments.held_out, BASELINE)}\n\n{undecided(results, BASELINE)}\n"
    (folder / "table.txt").write_text(summary)
    print(f"\n{summary}")


if __name__ == "__main__":
    main()
