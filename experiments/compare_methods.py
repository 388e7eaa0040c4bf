"""Every method on the laptop task, on two processes each: one table. No download, no GPU.

    make compare

The recipes in `configs/recipes/methods` say what a method sets; its batch sizes and the rest come from the task. One
run after another, so that their times can be compared.
"""

import argparse
from pathlib import Path

import yaml

from steer_trl.countdown.evaluation import MEASURED
from steer_trl.countdown.experiment import RECIPE, START, Experiment, make_start, train_methods
from steer_trl.countdown.report import table, verdicts

ROOT = Path(__file__).parents[1]
RECIPES = {path.stem: path for path in sorted(ROOT.glob("configs/recipes/methods/*.yaml"))}
ENGINE = ROOT / "configs/accelerate/cpu_2_processes.yaml"
BASELINE = "clip_higher"  # the task's own clipping


def fields(recipe: Path, processes: int) -> dict[str, object]:
    """What a recipe sets of a method, with the batch sizes of the task."""
    own = yaml.safe_load(recipe.read_text())
    del own["extends"], own["output_dir"]
    sizes = {"per_device_train_batch_size": 128 // processes, "gradient_accumulation_steps": 1}
    return own | sizes | {"steps_per_generation": 4}


def main() -> None:
    """Make the start where there is none, train every method, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/compare"))
    parser.add_argument("--methods", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--steps", type=int, default=50, help="optimizer steps of each method")
    parser.add_argument("--supervised_steps", type=int, default=1100)
    parser.add_argument("--held_out", type=int, default=400, help="problems to judge on")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = vars(parser.parse_args())
    names, processes = dict.fromkeys([BASELINE, *arguments.pop("methods")]), arguments.pop("processes")
    launcher = ("-m", "accelerate.commands.launch", "--config_file", str(ENGINE), "--num_processes", str(processes))
    methods = {name: fields(RECIPES[name], processes) for name in names}
    experiment = Experiment(methods, **arguments, eval_every=None, side_by_side=1, launcher=launcher)
    start = experiment.folder(START)
    if not (start / MEASURED).exists():
        make_start(experiment)
    elif (made := yaml.safe_load((start / RECIPE).read_text())) != experiment.recipe(START):
        raise SystemExit(
            f"{start} was made with {made}, and this needs {experiment.recipe(START)}. Give another --output_dir."
        )
    results = train_methods(experiment)
    summary = f"{table(results, experiment.held_out, BASELINE)}\n\n{verdicts(results, BASELINE)}\n"
    (experiment.output_dir / "table.txt").write_text(summary)
    print(f"\n{summary}")


if __name__ == "__main__":
    main()
