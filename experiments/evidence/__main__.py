"""Trains every arm from every start model with every seed, to compare how much they learn and how varied they stay.

    python -m experiments.evidence             # make all missing runs; takes many hours on two cores
    python -m experiments.evidence --arms GRPO --starts 0 1 2 --seeds 0 1 2
    python -m experiments.evidence --task experiments.tasks.palindrome:TASK    # use another task

All runs generate the same number of tokens. Settings are chosen on the validation split. The test split is evaluated
once, at the end. Each finished run is published as a file in experiments/results/TASK/, with the results of every
problem, and is not repeated. Its model stays in the run's folder.
"""

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import yaml

from experiments.evidence.arguments import find_task, parser_of_runs
from experiments.evidence.records import file_of, publish, run_name
from experiments.lab import Experiment, side_by_side
from experiments.lab.runs import SAMPLINGS
from experiments.lab.task import SPLITS
from steer_trl.support.exceptions import CannotContinueError

HERE = Path(__file__).parent


def main() -> None:
    """Make the missing runs, and publish each one when it ends."""
    parser = parser_of_runs(__doc__)
    parser.add_argument("--arms_file", type=Path, help="by default arms.yaml, or PART.yaml")
    parser.add_argument("--part", default="", help="runs of another question, such as phases, in a subfolder")
    parser.add_argument("--tokens", type=int, default=2_000_000, help="that each run generates")
    parser.add_argument("--eval_steps", type=int, default=160, help="optimizer steps between two evaluations")
    parser.add_argument("--start_steps", type=int, help="of the supervised start; by default the task's")
    parser.add_argument("--num_problems", type=int, help="to choose by, and to judge by; by default all")
    parser.add_argument("--temperatures", nargs="+", type=float, help="that a model is sampled at when it has ended")
    parser.add_argument("--splits", nargs="+", default=["test"], choices=SPLITS[1:], help="that it is asked then")
    parser.add_argument("--learning_rates", nargs="+", type=float, help="every arm at each of them")
    parser.add_argument("--after", help="a task: begin with what its run of the same arm, start and seed ended with")
    given = parser.parse_args()
    task = find_task(given.task)
    arms_file = given.arms_file or HERE / f"{given.part or 'arms'}.yaml"
    arms = yaml.safe_load(arms_file.read_text())
    unknown = [arm for arm in given.arms or () if arm not in arms]
    if unknown:
        parser.error(f"--arms: {unknown} are not in {arms_file}, which has {list(arms)}")
    published = given.published / task.name / given.part
    if given.learning_rates:
        arms = {
            f"{arm}, rate {rate:g}": settings | {"learning_rate": rate}
            for arm, settings in arms.items()
            if arm in (given.arms or arms)
            for rate in given.learning_rates
        }
    names = list(arms) if given.learning_rates else given.arms or list(arms)
    samplings = [f"t{temperature:g}" for temperature in given.temperatures or ()] or SAMPLINGS
    common = {"max_generated_tokens": given.tokens, "max_steps": 100_000, "eval_steps": given.eval_steps}
    common |= {"save_steps": given.eval_steps}
    experiments = {
        start: Experiment(
            task,
            given.output_dir / task.name / given.part / f"start-{start}",
            seed=start,
            start_steps=given.start_steps,
            num_problems=given.num_problems,
            samplings=samplings,
            splits=given.splits,
        )
        for start in given.starts
    }
    failures: list[str] = []

    def run(job: tuple[int, int, str]) -> None:
        seed, start, arm = job
        path, name = file_of(published, arm, start, seed), run_name(arm, seed)
        if path.exists():
            return
        settings, begins = common | arms[arm] | {"seed": seed}, {}
        if given.temperatures:
            course = f"validation={experiments[start].problems('validation')}@4"
            begins = {"eval_benchmarks": [course], "eval_samplings": ["t1"]}
        if given.after:
            before = replace(experiments[start], output_dir=given.output_dir / given.after / f"start-{start}")
            begins |= {"model_name_or_path": str(before.folder(name))}
        try:
            experiments[start].train(name, settings | begins)
            publish(path, experiments[start], name, arm, seed, settings)
        except CannotContinueError as error:  # the other runs can still succeed
            failures.append(str(error))

    jobs = list(product(given.seeds, given.starts, names))
    missing = {start for seed, start, arm in jobs if not file_of(published, arm, start, seed).exists()}
    side_by_side(partial(make_start, experiments, published), sorted(missing), given.workers)
    side_by_side(run, jobs, given.workers)
    if failures:
        raise SystemExit("\n\n".join(failures))


def make_start(experiments: dict[int, Experiment], published: Path, start: int) -> None:
    """Make a start model, and publish its evaluation."""
    experiments[start].make_start()
    publish(file_of(published, "start", start), experiments[start], "start", "start")


if __name__ == "__main__":
    main()
