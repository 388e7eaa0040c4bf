"""Makes the missing runs of a block of protocol 4, and publishes each start when all of its runs are there.

If the command is interrupted, start it again to continue.

python -m experiments.letgo --list
python -m experiments.letgo pilot
python -m experiments.letgo block1
python -m experiments.letgo linear_look  # chooses the rates of block `linear`
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from experiments.lab import side_by_side
from experiments.lab.runs import ROOT, let_processes_import
from experiments.letgo import published
from experiments.letgo.plan import (
    NAMED,
    PLAN,
    Job,
    Plan,
    block_jobs,
    look_jobs,
    look_name,
    pilot_jobs,
    read_plan,
    unit_name,
)
from experiments.letgo.rule import Pilot, Records, look_choice
from experiments.letgo.runs import Runs
from steer_trl.support.exceptions import CannotContinueError, InvalidValueError


def records_of(runs: Runs, block: str, starts: Sequence[int], run: int = 1) -> Records:
    """Return the records of the pilot or of a look by arm and start, from the folder of the runs."""
    records = {}
    for start in starts:
        for path in sorted((runs.output_dir / "records" / unit_name(block, start, run)).glob("*.json")):
            record = json.loads(path.read_text())
            records[record["arm"], record["start"]] = record
    return records


def jobs_of_pilot(plan: Plan, runs: Runs) -> list[Job]:
    """Return the pilot's jobs, as far as its runs so far decide which they are."""
    pilot = Pilot(plan, records_of(runs, "pilot", plan["pilot"]["starts"]))
    jobs = [job for arm in plan["pilot"]["arms"] for job in pilot_jobs(plan, arm, plan["pilot"]["rates"])]
    jobs += [job for arm in plan["pilot"]["arms"] for job in pilot_jobs(plan, arm, pilot.rates(arm)[2:])]
    rate = pilot.rate(NAMED)
    others = [form for form in plan["forms"] if form != plan["pilot"]["form"]]
    return jobs + [job for form in others if rate is not None for job in pilot_jobs(plan, NAMED, [rate], form)]


def jobs_of(plan: Plan, block: str, runs: Runs) -> list[Job]:
    """Return the jobs of the pilot, of a look or of a block."""
    if block == "pilot":
        return jobs_of_pilot(plan, runs)
    return look_jobs(plan, looks(plan)[block]) if block in looks(plan) else block_jobs(plan, block)


def looks(plan: Plan) -> dict[str, str]:
    """Return the block of each look, by the look's name."""
    return {look_name(block): block for block in plan["looks"]}


def make(plan: Plan, block: str, runs: Runs, workers: int) -> list[str]:
    """Make the missing runs of a block, publish what is whole, and return what failed."""
    failures: dict[Path, str] = {}
    ended: dict[Path, Event] = {}

    def run(job: Job) -> None:
        for needed in runs.needed(job):
            if needed in ended:
                ended[needed].wait()
        try:
            runs.run(job)
        except (CannotContinueError, InvalidValueError) as error:  # the other runs can still succeed
            failures[runs.path(job)] = f"{job.unit}, {job.arm}: {error}"
            print(failures[runs.path(job)], file=sys.stderr, flush=True)
        finally:
            ended[runs.path(job)].set()
        runs.publish(jobs_of(plan, block, runs))

    # The runs of the pilot decide which others there are.
    while missing := [
        job for job in jobs_of(plan, block, runs) if not runs.is_done(job) and runs.path(job) not in failures
    ]:
        ended |= {runs.path(job): Event() for job in missing}
        side_by_side(run, missing, workers)
    return list(failures.values())


def show(jobs: Sequence[Job], runs: Runs) -> None:
    """Print the jobs in their order, and which of them are done."""
    for job in jobs:
        print("done" if runs.is_done(job) else "    ", job.unit, job.arm)


def main() -> None:
    """Make the missing runs of a block, or list them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("block", nargs="?", default="pilot", help="pilot, or a block or look of the plan")
    parser.add_argument("--plan", type=Path, default=PLAN, help="another plan, for a trial")
    parser.add_argument("--workers", type=int, default=2, help="runs side by side, one thread each")
    parser.add_argument("--output_dir", type=Path, default=ROOT / "runs/letgo", help="folder of models and logs")
    parser.add_argument("--published", type=Path, default=published.FOLDER)
    parser.add_argument("--list", action="store_true", help="list the runs in order, and run nothing")
    given = parser.parse_args()
    plan = read_plan(given.plan)
    blocks = ["pilot", *plan["blocks"], *looks(plan)]
    if given.block not in blocks:
        parser.error(f"block: must be one of {blocks}, got {given.block!r}")
    runs = Runs(given.output_dir, given.published)
    runs.unpack()
    if given.list:
        return show(jobs_of(plan, given.block, runs), runs)
    let_processes_import()
    failures = make(plan, given.block, runs, given.workers)
    if given.block == "pilot":
        pilot = Pilot(plan, records_of(runs, "pilot", plan["pilot"]["starts"]))
        print({arm: pilot.rate(arm) for arm in plan["pilot"]["arms"]}, pilot.form())
    if look := looks(plan).get(given.block):
        starts, run = plan["looks"][look]["starts"], plan["blocks"][look]["run"]
        print(look_choice(plan, look, records_of(runs, given.block, starts, run)))
    if failures:
        raise SystemExit(f"{len(failures)} runs failed.")


if __name__ == "__main__":
    main()
