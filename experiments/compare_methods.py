"""Trains a small model with every method on the laptop task, and prints one table. It needs no download and no GPU.

    make compare

The settings of each method come from `configs/recipes/methods`. Batch sizes and everything else come from the task.
Each run has two processes. The runs follow one another, so that their times can be compared.
"""

import argparse
from pathlib import Path

import yaml

from experiments.lab import Experiment, read_results, table, verdicts
from experiments.lab.countdown import COUNTDOWN

ROOT = Path(__file__).parents[1]
RECIPES = {path.stem: path for path in sorted(ROOT.glob("configs/recipes/methods/*.yaml"))}
ENGINE = ROOT / "configs/accelerate/cpu_2_processes.yaml"
BASELINE = "clip_higher"  # the task's own clipping


def fields(recipe: Path, processes: int, steps: int) -> dict[str, object]:
    """Return the settings of a method's recipe, with the batch sizes of the task."""
    own = yaml.safe_load(recipe.read_text())
    del own["extends"], own["output_dir"]
    sizes = {"per_device_train_batch_size": 128 // processes, "gradient_accumulation_steps": 1}
    return own | sizes | {"steps_per_generation": 4, "max_steps": steps, "eval_steps": steps}


def main() -> None:
    """Make the start model if it is missing, train with every method, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/compare"))
    parser.add_argument("--methods", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--steps", type=int, default=50, help="optimizer steps of each method")
    parser.add_argument("--supervised_steps", type=int, default=1100)
    parser.add_argument("--num_problems", type=int, default=400, help="problems to judge by")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    launcher = ("--accelerate_config", str(ENGINE), "--num_processes", str(given.processes))
    experiment = Experiment(
        COUNTDOWN,
        given.output_dir,
        seed=given.seed,
        start_steps=given.supervised_steps,
        num_problems=given.num_problems,
        launcher=launcher,
    )
    names = list(dict.fromkeys([BASELINE, *given.methods]))
    experiment.make_start()
    for name in names:
        experiment.train(name, fields(RECIPES[name], given.processes, given.steps) | {"seed": given.seed})
    results = read_results(experiment, names)
    summary = f"{table(results, timed_against=BASELINE)}\n\n{verdicts(results, BASELINE)}\n"
    (experiment.output_dir / "table.txt").write_text(summary)
    print(f"\n{summary}")


if __name__ == "__main__":
    main()
