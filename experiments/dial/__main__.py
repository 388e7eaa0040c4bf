"""Makes the missing runs of protocol 3, in its order.

Each run is published as one file. If the command is interrupted, start it again to continue.

python -m experiments.dial --list
python -m experiments.dial
python -m experiments.dial --blocks long_pair --workers 1
"""

import argparse
import sys
from pathlib import Path

from experiments.dial.plan import Job, jobs_of, read_plan
from experiments.dial.runs import Runs, describe
from experiments.lab import side_by_side
from experiments.lab.runs import ROOT, let_processes_import
from steer_trl.support.exceptions import CannotContinueError


def main() -> None:
    """Make the missing runs. If one fails, the others still run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", nargs="+", default=[], help="some of the plan's blocks; by default all")
    parser.add_argument("--starts", nargs="+", type=int, default=[], help="some of their starts; by default all")
    parser.add_argument("--workers", type=int, default=2, help="runs side by side, one thread each")
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/dial", help="folder of models and logs")
    parser.add_argument("--published", type=Path, default=ROOT / "runs/dial/published")
    parser.add_argument("--plan", type=Path, help="another plan, for a trial")
    parser.add_argument("--list", action="store_true", help="list the runs in order, and run nothing")
    given = parser.parse_args()
    plan = read_plan(given.plan) if given.plan else read_plan()
    unknown = [name for name in given.blocks if name not in plan["blocks"]]
    if unknown:
        parser.error(f"--blocks: {unknown} are not in the plan, which has {list(plan['blocks'])}")
    jobs = [job for job in jobs_of(plan, given.blocks) if not given.starts or job.start in given.starts]
    runs = Runs(given.output_dir, given.published)
    if given.list:
        for job in jobs:
            print(describe(job, runs))
        return
    failures: list[str] = []

    def run(job: Job) -> None:
        try:
            runs.run(job)
        except CannotContinueError as error:  # the other runs can still succeed
            failures.append(f"{job.block}, start {job.start}, {job.arm}: {error}")
            print(failures[-1], file=sys.stderr, flush=True)

    let_processes_import()
    side_by_side(run, jobs, given.workers)
    if failures:
        raise SystemExit(f"{len(failures)} runs failed.")


if __name__ == "__main__":
    main()
