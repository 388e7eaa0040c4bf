"""Which way of training learns most, and keeps most variety? Every arm from every start with every seed, resumable.

    make evidence                                                # all that is not there yet: many hours on two cores
    python experiments/evidence --arms GRPO --starts 0 1 2 --seeds 0 1 2
    python experiments/evidence --task palindrome:TASK           # another task: a module in experiments/tasks
    cd docs/evidence/countdown && steer-trl compare --a grpo-start*.json --b grpo-dynamic-sampling-start*.json

Every run generates as many tokens. Settings are chosen on the validation split, which is evaluated during the runs;
the test split is evaluated once, at the end. Each run that has ended is a file in docs/evidence/TASK/, with the
results of every problem, and is not run again; its model stays in the run's folder.
"""

import argparse
import os
import pkgutil
import sys
from functools import partial
from itertools import product
from pathlib import Path

import yaml
from records import file_of, publish, run_name

from steer_trl.exceptions import CannotContinueError
from steer_trl.experiment import Experiment, Task, side_by_side

HERE = Path(__file__).parent
ROOT, TASKS = HERE.parents[1], HERE.parent / "tasks"


def main() -> None:
    """Run what is missing, and publish each run when it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="steer_trl.countdown:COUNTDOWN", help="MODULE:NAME of a Task")
    parser.add_argument("--arms_file", type=Path, help="by default arms.yaml, or PART.yaml")
    parser.add_argument("--part", default="", help="runs of another question, such as hands, in a subfolder")
    parser.add_argument("--arms", nargs="+", help="some of them; by default all")
    parser.add_argument("--starts", nargs="+", type=int, default=[0, 1, 2], help="seeds of the models to begin with")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of reinforcement learning")
    parser.add_argument("--tokens", type=int, default=2_000_000, help="that each run generates")
    parser.add_argument("--eval_steps", type=int, default=160, help="optimizer steps between two evaluations")
    parser.add_argument("--start_steps", type=int, help="of the supervised start; by default the task's")
    parser.add_argument("--num_problems", type=int, help="to choose by, and to judge by; by default all")
    parser.add_argument("--workers", type=int, help="runs side by side; by default one for each core")
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/evidence")
    parser.add_argument("--published", type=Path, default=ROOT / "docs/evidence")
    given = parser.parse_args()
    sys.path.insert(0, str(TASKS))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TASKS), os.environ.get("PYTHONPATH")]))
    task: Task = pkgutil.resolve_name(given.task)
    arms_file = given.arms_file or HERE / f"{given.part or 'arms'}.yaml"
    arms = yaml.safe_load(arms_file.read_text())
    unknown = [arm for arm in given.arms or () if arm not in arms]
    if unknown:
        parser.error(f"--arms: {unknown} are not in {arms_file}, which has {list(arms)}")
    published = given.published / task.name / given.part
    common = {"max_generated_tokens": given.tokens, "max_steps": 100_000, "eval_steps": given.eval_steps}
    common |= {"save_steps": given.eval_steps}
    experiments = {
        start: Experiment(
            task,
            given.output_dir / task.name / given.part / f"start-{start}",
            seed=start,
            start_steps=given.start_steps,
            num_problems=given.num_problems,
        )
        for start in given.starts
    }
    failures: list[str] = []

    def run(job: tuple[int, int, str]) -> None:
        seed, start, arm = job
        path, name = file_of(published, arm, start, seed), run_name(arm, seed)
        if path.exists():
            return
        settings = common | arms[arm] | {"seed": seed}
        try:
            experiments[start].train(name, settings)
            publish(path, experiments[start], name, arm, seed, settings)
        except CannotContinueError as error:  # the others are no worse for it
            failures.append(str(error))

    jobs = list(product(given.seeds, given.starts, given.arms or arms))
    missing = {start for seed, start, arm in jobs if not file_of(published, arm, start, seed).exists()}
    side_by_side(partial(make_start, experiments, published), sorted(missing), given.workers)
    side_by_side(run, jobs, given.workers)
    if failures:
        raise SystemExit("\n\n".join(failures))


def make_start(experiments: dict[int, Experiment], published: Path, start: int) -> None:
    """Make a start, and publish its evaluation."""
    experiments[start].make_start()
    publish(file_of(published, "start", start), experiments[start], "start", "start")


if __name__ == "__main__":
    main()
